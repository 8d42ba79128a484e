// SPDX-License-Identifier: Apache-2.0

// Package wayleave is an embeddable library that turns network policy and endpoints into kernel
// state on one Linux node. The policy and the endpoints are cluster-wide desired state. The kernel
// state consists of nftables rules and sets, routes and neighbours. The library programs only what
// changes, and repairs what other processes change in its objects.
//
// A wayleave is the right to cross someone's land: a permission and a route in one.
//
//	datastore.Source    calcgraph.Runner      calcgraph.Graph         dataplane.Driver    dataplane/nft ──▶ nf_tables
//	(files, memory,  ─▶ coalescing buffer, ─▶ validate ▸ match    ─▶  order, retry,    ─▶ dataplane/routes ▶ rtnetlink
//	 your own)          back-pressure         ▸ resolve ▸ sequence    status              your own
//	                                          ⇒ one Batch per flush
//
// Between source and driver everything is pure computation on one goroutine. This package
// has no code. Import the packages that you need:
//
//   - selector: the selector language; selector/labelindex: incremental matching
//   - policy: the resources; policy/verdict: whether policy allows a flow, and why
//   - policy/probe: a limited number of flows that represents all flows of a cluster, for tests of
//     policy
//   - calcgraph: computes the events for one node from the resources
//   - dataplane: the events, the Dataplane interface, and the driver; dataplane/dptest: an
//     in-memory dataplane, and a conformance kit for your own dataplane
//   - dataplane/nft and dataplane/routes: the dataplanes for the kernel; dataplane/felix: runs an
//     external dataplane driver that was written for Felix, Calico's agent
//   - dataplane/wireguard: encryption between nodes; dataplane/wire: a dataplane in another
//     process (both are separate modules)
//   - datastore: the sources of resources
//
// The module wayleave/kubernetes converts Kubernetes and Calico objects, and wayleave/examples has
// a complete node agent. They are separate modules, so a program that imports only this module does
// not get their dependencies.
//
// # Usage
//
// The example of this package connects a source, the graph and a dataplane in memory. See
// examples/minimal for a program that does so with the kernel.
//
// # Concurrency
//
// The comment of every exported type says whether it may be used from several goroutines. Do not
// change resources and batches after you have passed them on, because they are shared.
//
// # Errors
//
// An object with an error is treated as absent: as if it did not exist. Its key and the reason are
// reported. Other objects are processed as usual. There is one exception: if a policy has errors
// only in rules, the policy stays enforced. If the action of such a rule is Allow or Log, the rule
// matches nothing. Otherwise the rule denies everything.
package wayleave
