// SPDX-License-Identifier: Apache-2.0

// Package ports renders the nftables table of family bridge that binds workloads behind a bridge to their
// addresses: no port of a bridge can send with the address of another.
//
// The hooks of IP see packets of bridged workloads with the interface of the bridge, so policy tells the workloads
// apart by address (S171). This table makes the address say who sent a packet. It sees each frame that a port
// receives, before the bridge learns its source and before br_netfilter.
//
//	frame ─▶ prerouting ─┬─ port of an endpoint ─▶ port-mac ─▶ port ─┬─▶ port-ipv4
//	                     │                                           ├─▶ port-arp
//	                     ├─ other port with the prefix: drop         └─▶ port-ipv6 ─▶ port-icmpv6 ─▶ port-target
//	                     └─ any other port: drop what has an address of an endpoint
//
// A port of an endpoint sends IPv4, ARP and IPv6 without a VLAN tag, with the MAC address and the addresses of the
// endpoint:
//
//   - IPv4 from its addresses, or a DHCP request from the unspecified address;
//   - ARP with such a sender, or a probe for such an address (RFC 5227);
//   - IPv6 from its addresses, or from a link-local address that the host does not have on a bridge;
//   - from the unspecified IPv6 address: duplicate address detection of such an address, router solicitations,
//     and reports of multicast listeners (RFC 3590);
//   - neighbour advertisements for such an address; no router advertisements or redirects.
//
// Neighbour discovery in fragments drops, as RFC 6980 has it. A priority tag (a VLAN tag with the identifier 0)
// drops because Linux receives such a frame like one without a tag, while br_netfilter does not look into it.
// Frames of any other port drop if they claim an address of an endpoint: as the source of IP, the sender of ARP, or
// the target of an advertisement.
//
// The table does not track connections and has no rule for a single endpoint: endpoints are elements of hash sets.
// An address that moves is allowed at neither port until the main table has its new owner (Port.Withheld).
//
// # Limits
//
// Workloads can use each other's link-local addresses. Frames to group addresses of IEEE 802.1D skip the hook: see
// docs/bridges.md. Names of ports are those of the whole
// namespace, so a port with the prefix drops on any bridge.
//
// # Usage
//
//	r := ports.New(ports.Config{Table: "wayleave", InterfacePrefix: "veth"})
//	r.SetPort("veth1", &ports.Port{Addresses: addresses, MAC: mac})
//	delta := r.Flush()
//
// # Concurrency
//
// A Renderer is for one goroutine at a time.
//
// # Errors
//
// Nothing fails.
package ports
