// SPDX-License-Identifier: Apache-2.0

// Package calcgraph computes, from resources, the events that dataplanes of one node program: the active policies, the
// endpoints to which they apply, in order, and the addresses that their selectors match.
//
//	            Graph.Update (an invalid resource is absent)
//	  ┌──────────────┬─────┴──────────────┬──────────────────────┐
//	  │ policies,    │ all endpoints,     │ tiers,               │
//	  │ profiles,    │ network sets,      │ local endpoints      │
//	  │ local        │ profiles,          │                      │
//	  ▼ endpoints    │ services           │                      ▼
//	ActiveRules ─────┼──── selections and the endpoints ─────▶ PolicyResolver
//	  │ active       │     that they match                       │ endpoints with
//	  ▼ policies     ▼                                           │ ordered tiers
//	RuleScanner ──▶ IPSets                                       │
//	  │ resolved sets │ members                                  │
//	  │ rules         ▼                                          ▼
//	  └────────▶ Sequencer ◀─────────────────────────────────────┘
//	                 ▼
//	            Graph.Flush ⇒ dataplane.Batch
//
// The boxes are called nodes. Endpoints are workload endpoints and host endpoints. Those of the graph's node are local.
//
// Another part of the graph computes routes, the tunnel endpoints for them, and resources that dataplanes use by name.
// It shares only the Sequencer with the part above:
//
//	pools, blocks,          nodes                 nodes, pools, and optionally
//	endpoints             ┌───┴────┐              services and the profiles of namespaces
//	    │                 │        ▼              and service accounts
//	    │                 │  TunnelResolver              │
//	    ▼                 ▼        │ tunnels             ▼
//	    RouteResolver ◀────────────┤                   Relay
//	          │ routes             │                     │
//	          └──────────────▶ Sequencer ◀───────────────┘
//
// # Usage
//
// A Graph has all these nodes, and connects them. It is for one goroutine. A Runner is a buffer before a Graph. While
// the dataplane is busy, the Runner keeps only the latest update of each object. A datastore.Source sends its updates
// to a Runner. Each node of the graph is exported and can be used alone: a program that only needs the addresses that
// match a selector uses IPSets.
//
// Graph.Snapshot is for a dataplane that is added later. Graph.State and Stats are for people and tools. A Runner with
// RunnerConfig.Record records its updates, which package calcgraph/replay can play to another graph.
//
// # Rules for nodes
//
// The output of a node depends only on its current input, not on the order of earlier updates. Each add has exactly one
// remove with the same key. A reference to an object that does not exist fails closed: a profile that does not exist
// denies everything. Nodes use no goroutines, locks, clocks, I/O or logging. An update that equals the last one has no
// effect.
//
// The work of a flush is proportional to what changed. Of an endpoint on another cluster node, the graph stores only
// labels and addresses, in about 200 bytes. The nodes of the graph save time and memory in these ways:
//
//	ActiveRules      has one selector in its index for all policies with that selector; policies of
//	                 namespaces without a local endpoint are not indexed
//	RuleScanner      resolves only the rules of a policy that changed
//	IPSets           stores no members: each address has the number of its object; only for addresses of
//	                 several objects, it stores counts
//	PolicyResolver   shares lists of policies between endpoints that match the same selections
//	Sequencer        stores the members that changed since the last flush, and the emitted state of
//	                 everything else
//
// The members of a set are all distinct prefixes of its objects, including prefixes inside other members. A backend
// whose sets cannot overlap must merge them.
//
// # Errors
//
// The graph returns no errors. An invalid resource is absent, and Hooks.Rejected reports it. It does not affect other
// resources. If rules of a policy are not understood, these rules fail closed, and Hooks.Doubt reports them.
//
// # Concurrency
//
// Only Runner is safe for concurrent use; see there.
package calcgraph
