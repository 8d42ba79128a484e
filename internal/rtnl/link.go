// SPDX-License-Identifier: Apache-2.0

package rtnl

import "net/netip"

// Link is a network interface. It is comparable.
type Link struct {
	Name  string
	Index int
	// Up means that the interface is up. Running means that it is up and has a carrier.
	Up, Running bool
	// MTU in bytes.
	MTU uint32
	// MAC address; zero if it does not have six bytes.
	MAC MAC
	// Kind of a virtual interface, such as "vxlan"; empty for a physical one and for the loopback.
	Kind string
	// Master is the index of the device, such as a bridge, that the interface is a port of; 0 for
	// none.
	Master int
	// CallIPv4 and CallIPv6 are set for a bridge whose frames pass the netfilter hooks of IPv4 and
	// IPv6 even if the br_netfilter sysctls are off. The netlink attributes are
	// IFLA_BR_NF_CALL_IPTABLES and IFLA_BR_NF_CALL_IP6TABLES.
	CallIPv4, CallIPv6 bool
	// Alias is the description that an administrator or a program has set.
	Alias string
}

// Address is an address of an interface. It is comparable.
type Address struct {
	// Index of the interface.
	Index int
	// Prefix is the address with the length of its subnet.
	Prefix netip.Prefix
	// Tentative means that the address cannot be used: duplicate address detection has not ended,
	// or it has found a duplicate.
	Tentative bool
}
