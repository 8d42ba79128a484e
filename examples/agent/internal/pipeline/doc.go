// SPDX-License-Identifier: Apache-2.0

// Package pipeline connects the parts of Wayleave: it reads manifests and other sources, and
// programs the kernel of one node. In between, a calcgraph.Graph computes which policy and routes
// the node needs. It computes them from the objects of all sources. examples/minimal does the same
// with less code, without features that only the agent needs.
//
//	datastore.Dir ─┐
//	 (manifests)   ├▶ calcgraph.Runner ──▶ calcgraph.Graph ──▶ dataplane.Driver ──▶ nft, wireguard, routes
//	 other sources ┘    (coalesces)          (computes)         (merges, retries)     ▲
//	                                                                └──── Resync ─────┘ after drift
//
// # Usage
//
//	err := pipeline.Run(ctx, pipeline.Config{Manifests: "/etc/wayleave", Node: "node1", Logger: logger})
//
// Render returns the nftables table that Run would program. It needs no kernel.
//
// # Concurrency
//
// The methods of a running Pipeline may be called from any goroutine.
//
// Run and Render may be called several times at once, for different network namespaces or different
// tables. A Run calls each function of its Config from one goroutine, except Rejected.
//
// # Errors
//
// Run returns nil once its context is done. It returns an error only if it cannot continue. An
// error in a manifest or in one object is logged, and all other objects are programmed.
package pipeline
