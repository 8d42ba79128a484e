// SPDX-License-Identifier: Apache-2.0

package rtnl

import "net/netip"

// KindVXLAN is the Kind of VXLAN devices.
const KindVXLAN = "vxlan"

// Link is a network interface. It is a plain, comparable value.
type Link struct {
	Name  string
	Index int
	// Up means that it is switched on, Running that it has a carrier besides.
	Up, Running bool
	// MTU in bytes.
	MTU uint32
	// MAC address, zero if it has none of six bytes.
	MAC MAC
	// Kind of a virtual interface, as KindVXLAN; empty for a physical one and for the loopback.
	Kind string
	// Master is the index of the device that it is a port of, such as a bridge; 0 for none.
	Master int
	// Alias is a text that somebody gave it, for whatever purpose.
	Alias string
	// VXLAN is zero unless Kind is KindVXLAN.
	VXLAN VXLAN
}

// VXLAN are the parameters of a VXLAN device. It is a plain, comparable value.
type VXLAN struct {
	// VNI is the network identifier, of 24 bits.
	VNI uint32
	// Port is the UDP port that packets are sent to and received at.
	Port uint16
	// Local is the source address of packets; its family is that of the underlying network. The
	// zero Addr leaves both to the kernel, which takes IPv4.
	Local netip.Addr
	// Parent is the index of the interface that packets leave by; 0 leaves that to routing.
	Parent int
	// Learning fills the forwarding database from what is received.
	Learning bool
	// Other means that the device has a parameter with an effect on where packets go which is not
	// listed here, such as a group, or metadata of a collector.
	Other bool
}

// Address is an address of an interface. It is a plain, comparable value.
type Address struct {
	// Index of the interface.
	Index int
	// Prefix is the address with the length of its subnet.
	Prefix netip.Prefix
	// Tentative means that duplicate address detection is under way, or found a duplicate: the
	// address is not usable.
	Tentative bool
}
