// SPDX-License-Identifier: Apache-2.0

// Package wayleave is an embeddable library that turns network policy and endpoints (cluster-wide
// desired state) into kernel state on one Linux node: nftables rules and sets, routes and
// neighbours. It works incrementally, and keeps what it programmed right.
//
// A wayleave is the right to cross someone's land: a permission and a route in one.
//
//	datastore.Source    calcgraph.Runner      calcgraph.Graph         dataplane.Driver    dataplane/nft ──▶ nf_tables
//	(files, memory,  ─▶ coalescing buffer, ─▶ validate ▸ match    ─▶  order, retry,    ─▶ dataplane/routes ▶ rtnetlink
//	 your own)          back-pressure         ▸ resolve ▸ sequence    status              your own
//	                                          ⇒ one Batch per flush
//
// Between source and driver everything is pure computation on one goroutine. This package
// has no code of its own; import what you need of the others:
//
//   - selector: the selector language; selector/labelindex: incremental matching
//   - policy: the resources; policy/verdict: what becomes of a flow, and why; policy/probe: which
//     flows to try
//   - calcgraph: resources to events for one node
//   - dataplane: the events, the Dataplane interface, and the driver; dataplane/dptest: an
//     in-memory dataplane and a conformance kit for your own
//   - dataplane/nft and dataplane/routes: the kernel; dataplane/wireguard, a module of its own:
//     encryption between nodes; dataplane/wire, another one: a dataplane in another process;
//     dataplane/felix: a driver that was written for Felix
//   - datastore: where the resources come from
//
// Conversion from Kubernetes and Calico objects is in the module wayleave/kubernetes, and a
// complete node agent in wayleave/examples, so that an importer of this module gets neither's
// dependencies.
//
// # Usage
//
// The example wires a source, the graph and a dataplane. See examples/minimal for the same with the
// kernel.
//
// # Concurrency
//
// Every exported type says whether it may be used from several goroutines. Values that have been
// handed on (resources, batches) are shared and must not be changed.
//
// # Errors
//
// An object that cannot be understood whole is treated as absent and reported by key and
// reason; it never stops the others, and never makes a rule match more than it says.
package wayleave
