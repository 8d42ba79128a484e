// SPDX-License-Identifier: Apache-2.0

// Package prove compares an nftables table with policy, packet by packet. The result is either that
// the table enforces the policy of a node, or a list of packets for which it does not.
//
//	world, settings ──▶ policy/verdict ────────────────┐
//	                                                   ├─▶ equal for each packet? ──▶ Report
//	table ──▶ ruleset/simulate, hooks on the way ──────┘
//	   └────▶ what rules, sets and maps tell apart ──▶ one packet of each kind
//
// Package verdict evaluates the resources of the cluster. It shares no code with the packages that
// make the table. To show that the kernel has the table, use applier.Compare.
//
// # Usage
//
//	report, err := prove.Table(ctx, prove.Config{World: world, Node: "n1", Table: table})
//	fmt.Print(report)
//
// # Kinds of packets
//
// It is not possible to try all packets. But two packets have the same result if no rule of policy
// and no rule of the table distinguishes them. Such packets are of one kind, and one packet of each
// kind is tried.
//
//   - Addresses are of one kind if they have the same answers to all conditions of the node's
//     policies (networks, selectors, named ports, services), and if they are in the same elements
//     of all sets and maps of the table and in the same ranges of its rules. An address that only
//     policy distinguishes from others, or only the table, is of a kind of its own. So a missing
//     element, an additional element, or a prefix that is off by one is found.
//   - Ports, protocols and values of header fields are of one kind if neither the policies of the
//     endpoint nor the rules that its packets can reach distinguish them. One of these kinds is the
//     values that nothing mentions.
//   - The source port varies only if something mentions it.
//
// # Which packets are tried
//
// For each workload endpoint of the node and each kind of address, these packets are tried:
//
//   - to and from the interfaces of the host (Config.HostInterface, and those of host endpoints);
//   - between any two endpoints of the node;
//   - to and from the node's own processes, if the world has an address of the node;
//   - from false sources, with a packet that policy allows from an address of the endpoint.
//
// Packets of a bridged endpoint have the interface of its bridge (Config.Bridges). If such a packet
// has the address of another endpoint of the bridge, it belongs to that endpoint and does not count
// as one from a false source.
//
// For host endpoints, packets to and from the node's processes are tried, and forwarded packets.
// For these packets, one address is fixed, and for the other address every kind is tried. A packet
// passes all hooks on its way, so untracked and pre-DNAT policy count.
//
// All packets are the first ones of their connections. Report.NotProved lists the packets that are
// not tried. Report.Incomplete lists what this table or world contains that cannot be compared.
//
// # Cost
//
// Every packet is run through the table for every endpoint. Policy is evaluated less often: once
// for packets that policy cannot distinguish, and once for endpoints with equal policies, profiles
// and settings whose addresses these policies cannot distinguish. Each address of the world is
// classified once.
//
// # Concurrency
//
// Table may be called from several goroutines. The world and the table must not change meanwhile.
//
// # Errors
//
// Table returns an error if it cannot compare. A difference is no error.
package prove
