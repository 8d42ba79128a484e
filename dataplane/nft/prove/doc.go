// SPDX-License-Identifier: Apache-2.0

// Package prove compares an nftables table with policy, packet by packet. The result is either that
// the table enforces the policy of a node, or a list of packets for which it does not. The input is
// the table and a world, which is all resources of the cluster at one moment.
//
//	world, settings ──▶ policy/verdict ────────────────┐
//	                                                   ├─▶ equal for each packet? ──▶ Report
//	table ──▶ ruleset/simulate, hooks on the way ──────┘
//	   └────▶ what rules, sets and maps tell apart ──▶ one packet of each kind
//
// Package verdict evaluates policy, and shares no code with the packages that make the table. This
// package does not read the kernel: applier.Compare shows whether the kernel has the table.
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
//   - Two addresses are of one kind if neither policy nor the table distinguishes them. For policy,
//     each condition of the node's policies (networks, selectors, named ports, services) must have
//     the same result for both. In the table, both must be in the same elements of all sets and
//     maps, and in the same ranges of all rules. An element may be missing or superfluous, or a
//     prefix may be off by one. Then there is an address that only policy or only the table
//     distinguishes from others. This address is of its own kind, so it is tried, and the mistake
//     is found.
//   - Each value of a port, protocol or header field has a kind. Two values are of one kind if
//     neither the policies of the endpoint nor the rules that its packets can reach distinguish
//     them. All values that neither a policy nor a rule mentions are of one kind.
//   - The source port varies only if a policy or a rule mentions source ports.
//
// # Which packets are tried
//
// For each workload endpoint of the node, these packets are tried:
//
//   - packets between the endpoint and each kind of address, in both directions, through the
//     interfaces of the host (Config.HostInterface, and those of host endpoints);
//   - packets to each other endpoint of the node;
//   - packets between the endpoint and the node's own processes, if the world has an address of the
//     node;
//   - packets from the endpoint with each kind of false source: an address that the endpoint does
//     not have. Apart from its source, such a packet is one that policy allows the endpoint to
//     send. If policy allows the endpoint to send nothing, a denied packet is tried.
//
// If an endpoint's interface is a port of a bridge (Config.Bridges), its packets are tried with the
// interface of the bridge. The source of such a packet may be the address of another endpoint on
// the bridge. The packet then counts as a packet of that other endpoint, so its source is not
// false.
//
// For host endpoints, two sorts of packets are tried:
//
//   - packets between the node's own processes and each kind of address;
//   - forwarded packets between one fixed address and each kind of address, in both directions. So
//     not every pair of addresses is tried.
//
// Each packet is run through the chains of all hooks on its way, so the proof covers untracked and
// pre-DNAT policy, too.
//
// Each packet is the first one of its connection. Report.NotProved lists packets that are never
// tried. Report.Incomplete lists those parts of the given table and world that cannot be compared.
//
// # Cost
//
// Every packet is run through the table for every endpoint. Policy is evaluated less often: packets
// that policy cannot distinguish share one evaluation. Endpoints with equal policies, profiles and
// settings also share it, if these policies cannot distinguish the endpoints' addresses. Each
// address of the world is classified once.
//
// # Concurrency
//
// Table may be called from several goroutines. The world and the table must not change meanwhile.
//
// # Errors
//
// Table returns an error if it cannot compare the table with policy. A difference is no error.
package prove
