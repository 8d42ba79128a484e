// SPDX-License-Identifier: Apache-2.0

// Package pipeline connects the parts of Wayleave to a node agent: it reads manifests and programs the kernel.
// examples/minimal is the same without the features that only the agent needs.
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
// Render returns what Run would program, without a kernel.
//
// # Concurrency
//
// The methods of a running Pipeline are safe for concurrent use: World, View and Plan compute their result when they
// are called.
//
// Run and Render may be called several times at once, for different network namespaces or with different tables. Each
// function of Config, except Rejected, is called from one goroutine of a Run.
//
// # Errors
//
// Run returns nil once its context is done. It returns an error only if it cannot continue, for example because a
// directory does not exist. Errors of a manifest or of one object are logged, and all other objects are programmed.
package pipeline
