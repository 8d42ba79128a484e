// SPDX-License-Identifier: Apache-2.0

// Package calcgraph turns resources into the events that a dataplane of one node
// programs: which policies are active here, which endpoints they apply to and in what order,
// and which addresses their selectors stand for.
//
//	            Graph.Update (an invalid resource is absent)
//	  ┌──────────────┬─────┴──────────────┬──────────────────────┐
//	  │ policies,    │ all endpoints,     │ tiers,               │
//	  │ profiles,    │ network sets,      │ local endpoints      │
//	  │ local        │ profiles,          │                      │
//	  ▼ endpoints    │ services           │                      ▼
//	ActiveRules ─────┼──── selections, and which endpoint ──▶ PolicyResolver
//	  │ active       │     matches which                         │ endpoints with
//	  ▼ policies     ▼                                           │ ordered tiers
//	RuleScanner ──▶ IPSets                                       │
//	  │ resolved sets │ members                                  │
//	  │ rules         ▼                                          ▼
//	  └────────▶ Sequencer ◀─────────────────────────────────────┘
//	                 ▼
//	            Graph.Flush ⇒ dataplane.Batch
//
// Endpoints are workload endpoints and host endpoints. Local are those of the graph's node.
//
// Beside that, and with nothing in common but the Sequencer, it computes where addresses are:
// routes, the tunnel endpoints that they lead through, and resources that dataplanes use by
// name.
//
//	pools, blocks,          nodes                 nodes, pools, and optionally
//	endpoints             ┌───┴────┐              services and the profiles of namespaces
//	    │                 │        ▼              and service accounts
//	    │                 │  TunnelResolver              │
//	    ▼                 ▼        │ tunnels             ▼
//	    RouteResolver ◀────────────┤                   PassOn
//	          │ routes             │                     │
//	          └──────────────▶ Sequencer ◀───────────────┘
//
// # Usage
//
// Graph is the whole, wired, to be called from one goroutine. Runner puts a buffer before
// it that coalesces updates while the dataplane is busy, and is what a
// datastore.Source feeds. Each node is exported and can be used alone: an embedder that only
// needs the addresses that match a selector uses IPSets alone.
//
// Graph.Snapshot is for a dataplane that joins late; Graph.State and Stats are for people and
// tools. A Runner with RunnerConfig.Record writes down what it is given, which package
// calcgraph/replay plays to another graph.
//
// # Contract of the nodes
//
// A node's output depends on its current input alone, never on how that came about. Every add has
// exactly one remove under the same key. A missing referent fails closed: a profile that does not
// exist denies everything. Nodes use no goroutines, locks, clocks, I/O or logging. An
// update equal to the last one has no effect.
//
// The work of a flush is in proportion to what changed, and what is kept of an endpoint elsewhere
// is its labels and addresses in some 200 bytes:
//
//	ActiveRules      one selector in its index for all policies that share it; policies of namespaces
//	                 that never had a local endpoint are not indexed
//	RuleScanner      an edit resolves the rules of that policy again, and touches nothing else
//	IPSets           no list of members: each address has the number of its object, and counts exist only for
//	                 addresses of several objects
//	PolicyResolver   endpoints that match the same selections share their lists
//	Sequencer        a log of members between flushes; of all else the state that was emitted
//
// A set's members are all distinct prefixes that contribute to it: prefixes that a broader member
// covers are emitted too, and a backend that cannot hold overlaps makes them disjoint itself.
//
// # Errors
//
// The graph does not fail. A resource that does not validate is treated as absent and handed to
// Hooks.Rejected with its error, and never stops the rest. If rules of a policy are not understood,
// these rules fail closed, and Hooks.Doubt reports them.
//
// # Concurrency
//
// Nothing here but Runner is safe for concurrent use; see there.
package calcgraph
