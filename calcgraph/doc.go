// SPDX-License-Identifier: Apache-2.0

// Package calcgraph computes the events for the dataplanes of one node. The input is the resources
// of the cluster. The events have the policies that apply on this node, the endpoints with their
// policies in order, and the addresses that the policies' selectors match.
//
// The figure shows how the graph computes policy. RuleScanner, a part of the graph, replaces
// selectors, named ports and services in rules by IP sets. It sends the sets to IPSets, and the
// resolved rules to Sequencer. IPSets computes the members of the sets.
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
// The types from ActiveRules to Sequencer are called the nodes of the graph. Endpoints are workload
// endpoints and host endpoints. An endpoint is local if it is on the machine that the graph
// computes for. A Selection is a group of policies that have the same selector.
//
// Another part of the graph computes routes, and the tunnel endpoints that routes need. It also
// passes on resources for dataplanes that use the names, labels or addresses of these resources.
// The two parts have only the Sequencer in common:
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
// A Graph has all these nodes, and connects them. It is for one goroutine. A Runner is a buffer in
// front of a Graph. While the dataplane is busy, the Runner keeps only the latest update of each
// object. A datastore.Source sends its updates to a Runner. Each node of the graph is exported and
// can be used alone: a program that only needs the addresses that match a selector uses IPSets.
//
// Graph.Snapshot returns the whole state as one batch, for a dataplane that is added later.
// Graph.State and Stats show what a graph contains, for debugging and metrics. With
// RunnerConfig.Record, a Runner records its updates, and package calcgraph/replay can send them to
// another graph.
//
// # Rules for nodes
//
// The output of a node depends only on its current input, not on the order of earlier updates. If a
// node adds an object to its output, it later removes the object exactly once, with the same key. A
// reference to an object that does not exist fails closed: a profile that does not exist denies
// everything. Nodes use no goroutines, locks, clocks, I/O or logging. An update that equals the
// last one has no effect.
//
// The work of a flush is proportional to what changed. Of an endpoint on another machine, the graph
// stores only labels and addresses, in about 200 bytes. The nodes of the graph save time and memory
// in these ways:
//
//	ActiveRules      has one selector in its index for all policies with that selector; policies of
//	                 namespaces without a local endpoint are not indexed
//	RuleScanner      resolves only the rules of a policy that changed
//	IPSets           does not store the members of a set: computes them from the set's selector, and
//	                 from the labels and prefixes of the objects
//	PolicyResolver   shares lists of policies between endpoints that the same selectors select
//	Sequencer        stores the emitted state of all objects except IP sets; for IP sets, stores only
//	                 the members that changed since the last flush
//
// The members of a set are all distinct prefixes of the objects in the set. A prefix is a member
// even if it lies inside another member. A backend whose sets must not overlap has to merge such
// members.
//
// # Errors
//
// Updates return no errors. The graph treats an invalid resource as if it did not exist, and calls
// Hooks.Rejected. Other resources are not affected. If the graph does not understand some rules of
// a policy, it closes these rules, and calls Hooks.Doubt. A closed Allow or Log rule matches
// nothing, and any other closed rule denies everything.
//
// # Concurrency
//
// Only a Runner is safe for concurrent use. Its method Run can be called once.
package calcgraph
