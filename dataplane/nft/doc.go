// SPDX-License-Identifier: Apache-2.0

// Package nft is the nftables backend: a Dataplane that programs policy into one nftables table,
// over netlink.
//
//	events ──▶ render ──▶ ruleset.Delta ──▶ applier ──▶ nf_tables
//
// Package render describes the table.
//
// # Traffic that policy does not see
//
// The table has base chains in the netfilter hooks of IPv4 and IPv6. Some traffic does not pass
// these hooks. Other traffic passes them with another interface or another header than its own:
//
//   - Frames that a bridge forwards between its own ports pass the hooks only if
//     net.bridge.bridge-nf-call-iptables and -ip6tables are set.
//   - If packets are routed to or from a port of a bridge, the hooks see the bridge as their
//     interface, and not the port. If render.Config.Bridges names the bridge, the table identifies
//     the endpoints behind it by their addresses. Any other endpoint whose interface is a port of a
//     bridge, bond or other master is at fault: packets that are routed to or from its addresses
//     drop.
//   - If a workload opens a tunnel itself, the hooks see only the outer header. Tunnels with one of
//     policy.HostConfig.ForbiddenEncapsulations drop. For other tunnels, policy decides by the
//     outer header.
//   - Nodes send each other packets through tunnels. Packets to the host in one of
//     policy.HostConfig.NodeEncapsulations drop unless their source is an address of a node.
//
// # Denied connections
//
// By default, an established connection continues even if policy denies it later. With
// conntrack.End as Config.ConntrackPolicy, a goroutine of the Dataplane ends such connections.
// These are the connections whose first packet the old ruleset allowed and the new one denies.
//
// If an address moves to another endpoint, its connections always end: Apply ends them before it
// admits the new owner. The file docs/nft.md describes the limits and the cost.
//
// # Usage
//
// Give the Dataplane to a dataplane.Driver. The Renderer of package render shows the table without
// a kernel.
//
// # Concurrency
//
// Nothing in this package is safe for concurrent use unless its comment says so.
//
// # Errors
//
// If an object cannot be rendered or programmed, it is reported as a *dataplane.ApplyError with its
// key. All other objects are programmed.
package nft
