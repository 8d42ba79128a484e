// SPDX-License-Identifier: Apache-2.0

// Package probe makes flows to test policy with. If policy treats many flows alike, one of them
// represents the others, so a limited number of flows represents all flows of a cluster. With such
// flows, the package compares two worlds. (A world has all resources of a cluster at one moment,
// see verdict.World.) The package also checks expectations, such as "shop/web reaches shop/db on
// tcp/80".
//
// Package verdict evaluates flows that its caller makes. Package probe makes them from names
// ("shop/web-*", "tcp/http") or from the resources of a world.
//
//	names of parties, ports ─▶ Index.Queries ──▶ Query ──▶ verdict.Flow ─▶ Answer
//	Expectation ─────────────▶ Index.Queries ──▶ Query ──▶ verdict.Flow ─▶ Result
//	one or two worlds ───────▶ Partition: groups of endpoints, addresses outside, ports
//	two worlds ──────────────▶ Partition ──▶ Comparison ──▶ PairChange ──▶ Difference
//
// # Names
//
// A party is a sender or a receiver. The text of a party is one of these:
//
//   - NAMESPACE/NAME, such as shop/web: a workload endpoint
//   - a pattern with "*", such as shop/web-*: all workload endpoints whose NAMESPACE/NAME matches
//   - an IP address
//   - svc/NAMESPACE/NAME: the backends of a service
//
// The text of a port is one of these:
//
//   - PROTOCOL/PORT, such as tcp/80
//   - PROTOCOL/NAME or NAME: a named port of the receiver
//   - icmp: an echo request of either family
//   - icmp/TYPE, icmp/TYPE/CODE, icmpv6/TYPE, icmpv6/TYPE/CODE
//   - ip/NUMBER: a protocol without ports
//
// # Usage
//
// This code queries verdicts by name, and prints the explanation of each flow:
//
//	index := probe.NewIndex(world)
//	port, err := probe.ParsePort("tcp/5432")
//	queries, err := index.Queries([]string{"shop/web"}, []string{"data/db-*"}, []probe.Port{port})
//	for _, q := range queries {
//		fmt.Print(q.Explain(evaluator))
//	}
//
// An Expectation is an expected verdict. It is usually read from JSON:
//
//	{"from": "shop/web", "to": ["data/db-0"], "port": "tcp/5432", "allow": true}
//
//	result, err := expectation.Check(index, evaluator)
//
// Diff compares two worlds, and returns all changes at once (a Comparison returns them one after
// the other):
//
//	d, err := probe.Diff(before, after, probe.DiffConfig{})
//	fmt.Print(d)
//
// # Representatives
//
// If policy treats many flows alike, only one of them is evaluated. A Group has workload endpoints
// that policy treats alike, and its first endpoint represents the others. Two workload endpoints
// are in one Group if all of this holds in each world:
//
//   - They have the same namespace, labels, profiles, named ports and settings.
//   - Their addresses are in the same networks. Here, a network is one that rules, network sets,
//     nodes or host endpoints mention.
//   - They are backends of the same services.
//
// An endpoint that shares an address with another endpoint is alone in its Group.
//
// An address that no workload endpoint has is an outside address. The following addresses represent
// all outside addresses:
//
//   - one address in each network that rules, network sets, nodes or host endpoints mention
//   - each address of a service's backend, unless a workload endpoint has the address
//   - for each family, one address that is in none of these networks
//
// The following ports, ICMP types and other protocols represent all ports, ICMP types and
// protocols:
//
//   - the ports that rules, services and named ports mention. Where ranges of ports overlap, their
//     ends divide them into sections, and one port represents each section.
//   - for TCP, UDP and each other mentioned protocol with ports, one port that nothing mentions
//   - echo requests, and the ICMP types that rules mention. If rules mention types of a family,
//     also one other type of this family.
//   - the other protocols that rules mention, and one protocol that nothing mentions
//
// The package evaluates the flows between these representatives. Every other flow from or to a
// workload endpoint has the same verdict as one of the evaluated flows, with two exceptions:
//
//   - If a rule matches source ports (see Partition.SourcePorts), flows with other source ports may
//     have other verdicts: all evaluated flows have the same source port.
//   - If a rule matches a field of policy.Header, flows with other values may have other verdicts:
//     all evaluated flows have the zero Header.
//
// The flows have an empty Flow.Node, so only policy of the workload endpoints applies to them, not
// policy of host endpoints.
//
// # Concurrency
//
// An Index and a Partition do not change. They are safe for concurrent use as long as the worlds do
// not change. Values of the other types are safe for concurrent use as long as no goroutine changes
// them. Comparison.Each and Diff evaluate on all processors, and call callbacks in the goroutine of
// the caller.
//
// # Errors
//
// Errors name the party, port or expectation. Index.Find, Index.Queries and ParsePort return an
// error for an invalid text. Index.Find and Index.Queries also return an error for a name that the
// world does not have. Diff returns a *LimitError if there are too many flows. Invalid resources
// are treated as absent, as in package verdict: Evaluator.Rejected and Difference.Rejected list
// them.
package probe
