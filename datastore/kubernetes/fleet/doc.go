// SPDX-License-Identifier: Apache-2.0

// Fleet measures the load that many nodes cause on one API server or one etcd.
//
//	fleet ── writes ──▶ kube-apiserver ──▶ etcd      (one process each, on loopback)
//	  │                      │ each node has its own connection and watches
//	  └── calls ───▶ worker: Source ▶ Runner ▶ Graph ▶ dptest.Mirror, for each of its nodes
//
// The nodes are simulated. Each node has its own connection, watches and calculation graph. In
// place of the kernel it has a dptest.Mirror, which is a dataplane in memory. A few worker
// processes run all nodes. The coordinator, which is the process that the user starts, writes
// changes to the server. The workers record when the Mirror of each node has received them.
//
// # Usage
//
//	make fleet                                  # 1,000 nodes, all backends and scenarios
//	make fleet FLEETFLAGS='--nodes 100 --scenario label,churn'
//	fleet --help
//
// The environment variable WAYLEAVE_KUBERNETES_BIN names the folder with the programs
// kube-apiserver and etcd. At the end, the program prints tables in Markdown. docs/fleet.md has the
// tables of a full run.
//
// The program is a module of its own. To start the servers, it uses an internal package of the
// module datastore/kubernetes, so it is below that module. It is not in the Go workspace (go.work),
// because no other module depends on it.
//
// # Concurrency
//
// A worker serves the coordinator's calls concurrently. Its nodes share nothing but the counters.
//
// # Errors
//
// The first error ends the run, with exit status 1. An interrupt ends the run, too. In both cases,
// no process and no folder remains.
package main
