// SPDX-License-Identifier: Apache-2.0

// Package cluster connects a node to an etcd that it shares with others. It reads objects and settings, and reports
// what the node has applied, under a lease.
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
// A Cluster keeps the last objects of the store. If the store is unavailable when a new pipeline starts, that gets
// these.
//
// The source sends no objects before the settings have been read, so that nothing is programmed with other settings.
//
// # Concurrency
//
// A Cluster is safe for concurrent use. Run is called once. Follow and the source run for one pipeline at a time.
//
// # Errors
//
// Failures of the store do not end Run: they are logged, State has them, and the request is repeated.
package cluster
