// SPDX-License-Identifier: Apache-2.0

// Package probe enumerates representative flows: one of each class of flows that policy can distinguish. With such
// flows, it compares two worlds. A world is a set of all resources, see verdict.World. It also checks expectations,
// such as "shop/web reaches shop/db on tcp/80".
//
// Package verdict evaluates flows that its caller gives. This package makes the flows, from names ("shop/web-*",
// "tcp/http") or from the resources of a world.
//
//	names of parties, ports ─▶ Index.Queries ──▶ Query ──▶ verdict.Flow ─▶ Answer
//	Expectation ─────────────▶ Index.Queries ──▶ Query ──▶ verdict.Flow ─▶ Result
//	one or two worlds ───────▶ Partition: groups of endpoints, addresses outside, ports
//	two worlds ──────────────▶ Partition ──▶ Comparison ──▶ PairChange ──▶ Difference
//
// # Names
//
// A party is a workload endpoint (NAMESPACE/NAME), several of them by a pattern with "*" (shop/web-*), an IP address,
// or the backends of a service (svc/NAMESPACE/NAME). A port is PROTOCOL/PORT, PROTOCOL/NAME or only the NAME of a port
// of the receiver, icmp (an echo request of either family), icmp/TYPE, icmp/TYPE/CODE (the same with icmpv6) or, for a
// protocol without ports, ip/NUMBER.
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
// To check expected verdicts in a world; an Expectation has a JSON form:
//
//	{"from": "shop/web", "to": ["data/db-0"], "port": "tcp/5432", "allow": true}
//
//	result, err := expectation.Check(index, evaluator)
//
// To compare two worlds; Diff returns all changes, and a Comparison one after the other:
//
//	d, err := probe.Diff(before, after, probe.DiffConfig{})
//	fmt.Print(d)
//
// # Representatives
//
// Two workload endpoints are in one Group if in each world they have the same namespace, labels, profiles, named ports
// and settings, are in the same networks that rules, network sets, nodes and host endpoints mention, and are backends
// of the same services. An endpoint that shares an address with another is in a group of its own.
//
// Outside addresses are: one for each mentioned network, one for each backend that is no endpoint, and for each family
// one that is in no mentioned network.
//
// Ports are: each one that a rule, a service or a named port mentions; of ranges, one port of each section between two
// boundaries; and one port of TCP and of UDP that is not mentioned. ICMP types are: echo requests, those that rules
// mention, and one more of each family. Other protocols are: each one that is mentioned, and one that is not.
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
// Errors name the party, port or expectation. Index.Find, Index.Queries and ParsePort return one for invalid text, and
// for a name that the world does not have. Diff returns a *LimitError if there are too many flows. Invalid resources
// are absent, as in package verdict: see Evaluator.Rejected, or Difference.Rejected.
package probe
