// SPDX-License-Identifier: Apache-2.0

// Fleet measures what many nodes cost one API server or one etcd.
//
//	fleet ── writes ──▶ kube-apiserver ──▶ etcd      (one process each, on loopback)
//	  │                      │ a connection and watches of its own for each node
//	  └── orders ──▶ worker: Source ▶ Runner ▶ Graph ▶ dptest.Mirror, for each of its nodes
//
// Each node has its own connection, watches, calculation graph and Mirror, and no kernel. A few
// worker processes have all nodes. The coordinator writes changes, and the workers record when the
// Mirror of each node has them.
//
// # Usage
//
//	make fleet                                  # 1,000 nodes, all backends and scenarios
//	make fleet FLEETFLAGS='--nodes 100 --scenario label,churn'
//	fleet --help
//
// The programs kube-apiserver and etcd are those in the folder WAYLEAVE_KUBERNETES_BIN. The tables
// are printed at the end, in Markdown. docs/fleet.md has those of a full run.
//
// It is a module below datastore/kubernetes, because it uses the server of that module's tests,
// which is internal to it. Nothing else depends on it, so it is not part of the workspace.
//
// # Concurrency
//
// A worker serves the coordinator's calls at the same time. Its nodes share nothing but the counts.
//
// # Errors
//
// The first error ends the run, with exit status 1. An interrupt ends it, too. No process or folder
// remains in either case.
package main
