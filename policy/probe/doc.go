// SPDX-License-Identifier: Apache-2.0

// Package probe makes flows that represent all others: one for each class of flows that policy can distinguish. With
// such flows, it compares two worlds. A world has all resources of a cluster at one moment, see verdict.World. The
// package also checks expectations, such as "shop/web reaches shop/db on tcp/80".
//
// Package verdict evaluates flows that its caller gives. Package probe makes such flows, from names ("shop/web-*",
// "tcp/http") or from the resources of a world.
//
//	names of parties, ports ─▶ Index.Queries ──▶ Query ──▶ verdict.Flow ─▶ Answer
//	Expectation ─────────────▶ Index.Queries ──▶ Query ──▶ verdict.Flow ─▶ Result
//	one or two worlds ───────▶ Partition: groups of endpoints, addresses outside, ports
//	two worlds ──────────────▶ Partition ──▶ Comparison ──▶ PairChange ──▶ Difference
//
// # Names
//
// A party sends or receives. The text of a party is one of these:
//
//   - NAMESPACE/NAME, such as shop/web: a workload endpoint
//   - a pattern with "*", such as shop/web-*: all workload endpoints whose NAMESPACE/NAME matches
//   - an IP address
//   - svc/NAMESPACE/NAME: the backends of a service
//
// The text of a port is one of these:
//
//   - PROTOCOL/PORT, such as tcp/80
//   - PROTOCOL/NAME, or only NAME: a named port of the receiver
//   - icmp: an echo request of either family
//   - icmp/TYPE, icmp/TYPE/CODE, icmpv6/TYPE, icmpv6/TYPE/CODE
//   - ip/NUMBER: a protocol without ports
//
// # Usage
//
// To query verdicts by name, with the explanation of each flow:
//
//	index := probe.NewIndex(world)
//	port, err := probe.ParsePort("tcp/5432")
//	queries, err := index.Queries([]string{"shop/web"}, []string{"data/db-*"}, []probe.Port{port})
//	for _, q := range queries {
//		fmt.Print(q.Explain(evaluator))
//	}
//
// To check expected verdicts in a world. An Expectation is usually read from JSON:
//
//	{"from": "shop/web", "to": ["data/db-0"], "port": "tcp/5432", "allow": true}
//
//	result, err := expectation.Check(index, evaluator)
//
// To compare two worlds with Diff, which returns all changes at once. A Comparison returns them one after the other:
//
//	d, err := probe.Diff(before, after, probe.DiffConfig{})
//	fmt.Print(d)
//
// # Representatives
//
// Policy treats many flows alike, and only one of these is evaluated. Two workload endpoints are in one Group, and one
// represents the other, if all of this holds in each world:
//
//   - They have the same namespace, labels, profiles, named ports and settings.
//   - Their addresses are in the same networks, among those that rules, network sets, nodes and host endpoints mention.
//   - They are backends of the same services.
//
// An endpoint that shares an address with another endpoint is alone in its Group.
//
// These addresses represent all addresses that no workload endpoint has:
//
//   - one in each mentioned network
//   - each backend of a service that is no endpoint
//   - for each family, one in no mentioned network
//
// These ports, ICMP types and other protocols represent all others:
//
//   - the ports that rules, services and named ports mention. The ends of all mentioned ranges divide the ranges into
//     sections, and one port represents each section.
//   - for TCP, UDP and each other mentioned protocol with ports, one port that nothing mentions
//   - echo requests, and the ICMP types that rules mention. If rules mention types of a family, also one other type of
//     this family.
//   - the other protocols that rules mention, and one protocol that nothing mentions
//
// Every other flow between workload endpoints and outside addresses has the same verdict as one of these flows. There
// are two exceptions, because these flows have only one source port and the zero policy.Header: a rule may match source
// ports (see Partition.SourcePorts), or a field of policy.Header. Flows are evaluated without a node.
//
// # Concurrency
//
// An Index and a Partition do not change. They are safe for concurrent use as long as the worlds do not change.
// Comparison.Each and Diff evaluate on all processors, and call callbacks in the goroutine of the caller. The other
// types are data.
//
// # Errors
//
// Errors name the party, port or expectation. Index.Find, Index.Queries and ParsePort return an error for an invalid
// text. The first two also return one for a name that the world does not have. Diff returns a *LimitError if there are
// too many flows. Invalid resources are absent, as in package verdict: see Evaluator.Rejected, or Difference.Rejected.
package probe
