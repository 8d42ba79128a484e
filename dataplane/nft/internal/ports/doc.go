// SPDX-License-Identifier: Apache-2.0

// Package ports renders the nftables table of family bridge. This table binds workloads behind a
// bridge to their addresses: no port of the bridge can send with an address of another port.
//
// The hooks of IP see packets of bridged workloads with the interface of the bridge, so policy
// distinguishes the workloads by their addresses (S171). With this table, the source address proves
// which workload sent a packet. The table sees each frame that a port receives, before the bridge
// learns the frame's source and before br_netfilter.
//
//	frame ─▶ prerouting ─┬─ port of an endpoint ─▶ port-mac ─▶ port ─┬─▶ port-ipv4
//	                     │                                           ├─▶ port-arp
//	                     ├─ other port with the prefix: drop         └─▶ port-ipv6 ─▶ port-icmpv6 ─▶ port-target
//	                     └─ any other port: drop what has an address of an endpoint
//
// A port of an endpoint may send IPv4, ARP and IPv6 without a VLAN tag, with the MAC address and
// the addresses of the endpoint:
//
//   - IPv4 from its addresses, or a DHCP request from the unspecified address;
//   - ARP with one of its addresses as sender, or a probe for one of them (RFC 5227);
//   - IPv6 from its addresses, or from a link-local address that the host does not have on a
//     bridge;
//   - from the unspecified IPv6 address: duplicate address detection for one of its addresses or
//     such a link-local address, router solicitations, and reports of multicast listeners (RFC
//     3590);
//   - neighbour advertisements for one of these addresses, but no router advertisements or
//     redirects.
//
// Neighbour discovery in fragments drops, as RFC 6980 requires. A priority tag (a VLAN tag with the
// identifier 0) drops, too: Linux receives such a frame like one without a tag, but br_netfilter
// does not look into it. Frames of any other port drop if they claim an address of an endpoint: as
// the source of IP, the sender of ARP, or the target of an advertisement.
//
// The table does not track connections. Endpoints are elements of hash sets, and have no rules of
// their own. An address that moves to another port is allowed at neither port until the main table
// has its new owner (Port.Withheld).
//
// # Limits
//
// Workloads can use each other's link-local addresses. Frames to group addresses of IEEE 802.1D do
// not pass the hook: see docs/bridges.md. The table identifies a port by its name, whatever its
// bridge. So frames of a port whose name has Config.InterfacePrefix and that has no endpoint drop
// at every bridge.
//
// # Usage
//
//	r := ports.New(ports.Config{Table: "wayleave", InterfacePrefix: "veth"})
//	r.SetPort("veth1", &ports.Port{Addresses: addresses, MAC: mac})
//	delta := r.Flush()
//
// # Concurrency
//
// Only one goroutine at a time may use a Renderer.
//
// # Errors
//
// Nothing fails.
package ports
