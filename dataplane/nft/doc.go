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
// The table has base chains in the netfilter hooks of IPv4 and IPv6. Some frames of bridges do not
// pass these hooks. For some other packets, the hooks see the interface of a bridge instead of the
// endpoint's interface. For others, the hooks see only the outer header of a tunnel. These are the
// cases:
//
//   - A bridge may forward frames between its own ports. Such frames pass the hooks only if one of
//     two pairs is set: the sysctls net.bridge.bridge-nf-call-iptables and -ip6tables, or the
//     bridge's attributes nf_call_iptables and nf_call_ip6tables.
//   - If packets are routed to or from a port of a bridge, the hooks see the bridge as their
//     interface, and not the port. If render.Config.Bridges names the bridge, the table identifies
//     the endpoints behind the bridge by their addresses. The table cannot identify an endpoint
//     whose interface is a port of a bond, another master, or a bridge that Config.Bridges does not
//     name. So the table drops packets that are routed to or from the addresses of such an
//     endpoint, and Apply returns an error for the endpoint.
//   - If a workload opens a tunnel itself, the hooks see only the outer header. If
//     policy.HostConfig.ForbiddenEncapsulations has the tunnel's protocol, the table drops the
//     tunnel's packets. For other tunnels, policy decides by the outer header.
//   - Nodes send each other packets through tunnels, and another host could imitate such packets.
//     If policy.HostConfig.NodeEncapsulations has the tunnel's protocol, the table drops the
//     tunnel's packets to the host unless their source is an address of a node.
//
// # Denied connections
//
// By default, an established connection continues even if policy denies it later. If
// Config.ConntrackPolicy is conntrack.End, a goroutine of the Dataplane ends such connections:
// those whose first packet the old ruleset allowed and the new one denies.
//
// If an address moves to another endpoint, its connections always end: Apply ends them before it
// adds the new owner to the table. The file docs/nft.md describes the limits and the cost.
//
// # Usage
//
// Give the Dataplane to a dataplane.Driver. To see the table without programming it, use the
// Renderer of package render.
//
// # Concurrency
//
// Nothing in this package is safe for concurrent use unless its comment says so.
//
// # Errors
//
// If an object cannot be translated into rules or written to the kernel, Apply returns a
// *dataplane.ApplyError with the key of the object. All other objects are programmed.
package nft
