// SPDX-License-Identifier: Apache-2.0

// Package cluster connects a node to an etcd that it shares with other nodes. It reads objects and
// settings from etcd. It also writes the progress of the node to etcd, under a lease.
//
//	etcd ──objects──▶ Cluster ──▶ pipeline ──▶ kernel
//	     ──settings─▶ Settings                   │
//	     ◀──applied revision, faults, endpoints──┘
//
// # Usage
//
//	c, err := cluster.New(cluster.Config{Client: client, Node: "n1", Settings: ..., Rejected: ..., Logger: ...})
//	go c.Run(ctx)                        // reads settings and writes reports, as long as the agent runs
//	sources = append(sources, datastore.NamedSource{Name: cluster.Name, Source: c.Source()})
//	go c.Follow(ctx, p)                  // reports the progress of p, as long as p runs
//
// A pipeline (here p) is the part of the agent that programs the kernel. A change of settings ends
// it, and starts a new one. A Cluster keeps the objects that it last read from etcd. If etcd is
// unavailable when a new pipeline starts, the pipeline gets these objects.
//
// The source sends no objects before the settings have been read. Otherwise objects could be
// programmed with the wrong settings.
//
// # Concurrency
//
// A Cluster is safe for concurrent use. Run may be called only once. Follow and the source may run
// for one pipeline at a time.
//
// # Errors
//
// A failure of etcd does not end Run. The failure is in the log and in State, and the request is
// repeated.
package cluster
