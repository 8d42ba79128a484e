// SPDX-License-Identifier: Apache-2.0

// Package ports renders the nftables table of family bridge. This table binds workloads behind a
// bridge to their addresses: a workload cannot send with the address of another one.
//
// At the netfilter hooks of IPv4 and IPv6, the interface of a bridged workload's packet is the
// bridge. So policy can distinguish such workloads only by their addresses (case S171 of
// docs/semantics.md). With this table, the source address proves which workload sent a packet. The
// table sees each frame that the bridge receives at a port. Neither the bridge's learning of
// addresses nor br_netfilter has processed the frame yet.
//
// This is the way of a frame through the chains of the table. "The prefix" is
// Config.InterfacePrefix: the names of workloads' ports begin with it.
//
//	frame ─▶ prerouting ─┬─ port of an endpoint ─▶ port-mac ─▶ port ─┬─▶ port-ipv4
//	                     │                                           ├─▶ port-arp
//	                     ├─ other port with the prefix: drop         └─▶ port-ipv6 ─▶ port-icmpv6 ─▶ port-target
//	                     └─ any other port: drop what has an address of an endpoint
//
// Two kinds of IPv6 addresses are allowed for a port of an endpoint. They are the endpoint's
// addresses, and each link-local address that the host does not have on a bridge. The port may send
// these frames, without a VLAN tag and with the MAC address of the endpoint:
//
//   - IPv4 from an address of the endpoint, or a DHCP request from the unspecified address;
//   - ARP with an address of the endpoint as sender, or a probe for such an address (RFC 5227);
//   - IPv6 from an allowed address, except router advertisements, redirects, and neighbour
//     advertisements for an address that is not allowed;
//   - IPv6 from the unspecified address: duplicate address detection for an allowed address, router
//     solicitations, and reports of multicast listeners (RFC 3590).
//
// The table drops neighbour discovery in fragments, as RFC 6980 requires. It also drops frames with
// a priority tag, which is a VLAN tag with the identifier 0: Linux receives such a frame as if it
// had no tag, but br_netfilter does not look into it. From any other port, the table drops frames
// that claim an address of an endpoint. A frame may claim the address as the source of IP, the
// sender of ARP, or the target of an advertisement.
//
// The table does not track connections. Its rules do not depend on the endpoints. When an endpoint
// is added, only elements are added to the sets of the table. While an address moves to another
// port, neither port may send from the address. This lasts until the main table has the new owner
// of the address (see Port.Withheld).
//
// # Limits
//
// A workload can send from the link-local address of another workload. The hook does not see frames
// to the multicast addresses that IEEE 802.1D reserves: see docs/bridges.md. The table identifies a
// port by its name, whatever the bridge is, so it also filters the bridges of other programs. If
// the name of a port there begins with Config.InterfacePrefix, and the port has no endpoint, all
// its frames are dropped. Config.AcceptUnknown prevents that.
//
// # Usage
//
//	table := ports.Table(ports.Config{Table: "wayleave", InterfacePrefix: "veth"}, map[string]ports.Port{
//		"veth1": {Addresses: addresses, MAC: mac},
//	}, host)
//
// # Concurrency
//
// Several goroutines may call the functions at the same time.
//
// # Errors
//
// Nothing fails.
package ports
