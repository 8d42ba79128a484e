// SPDX-License-Identifier: Apache-2.0

// Package pipeline wires the parts of Wayleave into a node agent: manifests in, kernel state out. Run is
// the example to copy from when embedding the library.
//
//	datastore.Dir ──▶ calcgraph.Runner ──▶ calcgraph.Graph ──▶ dataplane.Driver ──▶ nft, then routes
//	 (manifests)        (coalesces)          (computes)         (retries)             ▲
//	                                                                └──── Resync ─────┘ links that changed
//
// # Usage
//
//	err := pipeline.Run(ctx, pipeline.Config{Manifests: "/etc/wayleave", Node: "node1", Logger: logger})
//
// Render answers, without a kernel, what Run would program.
//
// # Concurrency
//
// Run and Render may be called any number of times at once, for different network namespaces or with
// different tables. Config's functions are called from one goroutine a Run.
//
// # Errors
//
// Run returns nil once its context is done, and an error only for what makes it pointless to
// go on, as a directory that is not there. What is wrong with a manifest or
// with programming one object is logged, and everything else goes on.
package pipeline
