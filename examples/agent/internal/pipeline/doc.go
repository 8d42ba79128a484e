// SPDX-License-Identifier: Apache-2.0

// Package pipeline wires the parts of Wayleave into a node agent: manifests in, kernel state out.
// examples/minimal is the same without what only the agent needs.
//
//	datastore.Dir ─┐
//	 (manifests)   ├▶ calcgraph.Runner ──▶ calcgraph.Graph ──▶ dataplane.Driver ──▶ nft, wireguard, routes
//	 other sources ┘    (coalesces)          (computes)         (merges, retries)     ▲
//	                                                                └──── Resync ─────┘ what drifted
//
// # Usage
//
//	err := pipeline.Run(ctx, pipeline.Config{Manifests: "/etc/wayleave", Node: "node1", Logger: logger})
//
// Render answers, without a kernel, what Run would program.
//
// # Concurrency
//
// A Pipeline may be asked from any goroutine while it runs: World, View and Plan work out what is
// asked at that moment.
//
// Run and Render may be called any number of times at once, for different network namespaces or
// with different tables. Config's functions are called from one goroutine a Run each, but for
// Rejected.
//
// # Errors
//
// Run returns nil once its context is done, and an error only for what makes it pointless to
// go on, as a directory that is not there. What is wrong with a manifest or
// with programming one object is logged, and everything else goes on.
package pipeline
