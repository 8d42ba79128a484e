// SPDX-License-Identifier: Apache-2.0

// Package cluster joins a node to the etcd that it shares with others: objects and settings come
// from there, and what is in force on the node is reported there, under a lease.
//
//	etcd ──objects──▶ Cluster ──▶ pipeline ──▶ kernel
//	     ──settings─▶ Settings                   │
//	     ◀──revision in force, faults, endpoints─┘
//
// # Usage
//
//	c, err := cluster.New(cluster.Config{Client: client, Node: "n1", Settings: ..., Rejected: ..., Logger: ...})
//	go c.Run(ctx)                        // settings and reports, as long as the agent runs
//	sources = append(sources, datastore.NamedSource{Name: cluster.Name, Source: c.Source()})
//	go c.Follow(ctx, p)                  // as long as the pipeline runs
//
// What the store said last outlives the pipeline: one that starts anew while the store cannot be
// read goes on with that.
//
// The source tells nothing before the settings have been read, so that nothing is programmed by
// others than those that count.
//
// # Concurrency
//
// A Cluster is safe for concurrent use; Run is called once, and Follow and the source are run for
// one pipeline at a time.
//
// # Errors
//
// Nothing that goes wrong with the store ends anything: it is logged, is in State, and is tried
// again.
package cluster
