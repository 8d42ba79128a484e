// SPDX-License-Identifier: Apache-2.0

// Package probe enumerates the packets that policy can tell apart, and checks and compares worlds
// with them.
//
// Package verdict judges the flows that it is given. This package makes the flows: from names
// ("shop/web-*", "tcp/http"), or all that can make a difference in a world.
//
//	names of parties, ports ─▶ Index.Queries ──▶ Query ──▶ verdict.Flow ─▶ Answer
//	Expectation ─────────────▶ Index.Queries ──▶ Query ──▶ verdict.Flow ─▶ Result
//	one or two worlds ───────▶ Partition: groups of endpoints, addresses outside, ports
//	two worlds ──────────────▶ Partition ──▶ Comparison ──▶ PairChange ──▶ Difference
//
// # Names
//
// A party is a workload endpoint by NAMESPACE/NAME, several by a pattern with "*" as in shop/web-*,
// an IP address, or the backends of a service as svc/NAMESPACE/NAME. A port is PROTOCOL/PORT,
// PROTOCOL/NAME or just the NAME of a port of the receiver, icmp (an echo request of either
// family), icmp/TYPE, icmp/TYPE/CODE (icmpv6 likewise) or, for a protocol without ports, ip/NUMBER.
//
// # Usage
//
// Ask about parties by name, and get an answer with the explanation of each flow:
//
//	index := probe.NewIndex(world)
//	port, err := probe.ParsePort("tcp/5432")
//	queries, err := index.Queries([]string{"shop/web"}, []string{"data/db-*"}, []probe.Port{port})
//	for _, q := range queries {
//		fmt.Print(q.Explain(evaluator))
//	}
//
// Check what is expected of a world. An Expectation has a JSON form:
//
//	{"from": "shop/web", "to": ["data/db-0"], "port": "tcp/5432", "allow": true}
//
//	result, err := expectation.Check(index, evaluator)
//
// Compare two worlds. Diff does all of it; a Comparison gives the changes one by one:
//
//	d, err := probe.Diff(before, after, probe.DiffConfig{})
//	fmt.Print(d)
//
// # What is told apart
//
// Two workload endpoints are in one Group if they are in one namespace, have the same labels,
// profiles, named ports and settings, are in the same networks that rules, network sets, nodes and
// host endpoints mention, and are backends of the same services; in each world. An endpoint that
// shares an address is in a group of its own.
//
// Outside addresses: one for each network that is mentioned, for each backend that is no endpoint,
// and for each family one that is in no such network.
//
// Ports: each one that a rule, a service or a named port mentions, of ranges one port of each
// stretch that no other range cuts, and one port of TCP and of UDP that nothing mentions. Echo
// requests, the ICMP types that rules mention and one more of each family. Each other protocol that
// is mentioned, and one that is not.
//
// Every other flow between workload endpoints and outside addresses has the verdict of one of
// these, with two exceptions. Source ports are not varied (Partition.SourcePorts reports whether a
// rule matches them), and policy.Header is zero. Flows are judged by policy alone, without a node.
//
// # Concurrency
//
// An Index and a Partition do not change. Several goroutines may use them while nobody changes the
// worlds. Comparison.Each and Diff evaluate on all processors, and call back on the goroutine of the
// caller. The other types are data.
//
// # Errors
//
// Errors name the party, port or expectation. Index.Find, Index.Queries and ParsePort return one for
// a text that they cannot read, and for a name that the world does not have. Diff returns a
// *LimitError if there are too many flows. Invalid resources are absent, as in package verdict:
// look at Evaluator.Rejected, or Difference.Rejected.
package probe
