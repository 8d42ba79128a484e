// SPDX-License-Identifier: Apache-2.0

// Package calcgraph turns resources into the events that a dataplane of one node
// programs: which policies are active here, which endpoints they apply to and in what order,
// and which addresses their selectors stand for.
//
//	            Graph.Update (an invalid resource is absent)
//	  ┌──────────────┬─────┴────────────┬───────────────────────┐
//	  │ policies,    │ all endpoints,   │ tiers, policies,      │
//	  │ profiles,    │ network sets,    │ local endpoints       │
//	  │ local        │ profiles         │                       │
//	  ▼ endpoints    │                  │                       │
//	ActiveRules ─────┼──── matches ─────┼──▶ PolicyResolver ◀───┘
//	  │ active       │                  │         │ endpoints with
//	  ▼ policies     │                  │         │ ordered tiers
//	RuleScanner ─────┼─▶ IPSets ◀───────┘         │
//	  │ resolved     sets │ members               │
//	  │ rules             ▼                       ▼
//	  └──────────────▶ Sequencer ◀────────────────┘
//	                      ▼
//	                 Graph.Flush ⇒ dataplane.Batch
//
// # Usage
//
// Graph is the whole, wired, to be called from one goroutine. Runner puts a buffer before
// it that coalesces updates while the dataplane is busy, and is what a
// datastore.Source feeds. Each node is exported and can be used alone: an embedder that only
// wants to know which addresses match a selector needs IPSets and nothing else.
//
// # Contract of the nodes
//
// A node's output depends on its current input alone, never on how that came about. Every
// add has exactly one remove under the same key. A missing referent fails closed: a profile that does
// not exist denies everything. Nodes use no goroutines, locks, clocks,
// I/O or logging. The work of a flush is in proportion to what changed.
//
// A set's members are all distinct prefixes that contribute to it: prefixes that a broader
// member covers are emitted too, and a backend that cannot hold overlaps makes them disjoint itself.
//
// # Errors
//
// The graph does not fail. A resource that does not validate is treated as absent and
// handed to Hooks.Rejected with its error, and never stops the rest.
//
// # Concurrency
//
// Nothing here but Runner is safe for concurrent use; see there.
package calcgraph
