// SPDX-License-Identifier: Apache-2.0

// Package etcd keeps desired state in an etcd cluster that many nodes share, and what
// the nodes report of it.
//
//	Store, Writer ──▶ etcd ──▶ Source ──▶ datastore.Receiver   (on every node)
//	Store.Realised ◀─ etcd ◀── Reporter                        (on every node)
//
// It is a module of its own, so that nobody else gets etcd's client. docs/datastore.md has the
// layout of the keys, figures for sizing, and what happens when something fails.
//
// # Usage
//
// A Client holds the connection and says which part of the key space is meant:
//
//	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"https://etcd-1:2379"}, Cluster: "prod", TLS: ...})
//	...
//	defer client.Close()
//
// Whoever sets the cluster up writes objects, then calls Store.Init, once. Until then, and whenever
// the mark that Init makes is gone, a Source takes the key space for one that says nothing: it
// keeps what it has, and is not in sync if it has nothing yet. So a database that was lost, or is
// being filled again, takes no policy from a node.
//
//	store, err := etcd.NewStore(etcd.StoreConfig{Client: client})
//	revision, err := store.Put(ctx, resource, etcd.Any)
//	err = store.Init(ctx)
//
// A node runs a Source with the receiver of its updates, usually a calcgraph.Runner, and a Reporter
// that records which revision is in force:
//
//	source, err := etcd.NewSource(etcd.SourceConfig{Client: client})
//	err = source.Run(ctx, runner)
//
// A Writer keeps the store equal to a stream of manifests: it writes what is in it, and deletes
// what it wrote before and is no longer there.
//
// # What a Source does with what it cannot read
//
// A value that cannot be decoded, or has members or a schema version that this package does not
// know, is reported to Rejected, and its object is absent, as in a datastore.Dir. A policy with
// rules that cannot be read is passed on with these rules closed; the receiver reports them when it
// calls policy.Update.Admit. A Store and a Writer treat such a value as written by a newer version.
// A newer version of the whole layout stops the Source where it is.
//
// # Concurrency
//
// A Client, a Store, a Writer and a Reporter are safe for concurrent use. A Source runs once at a
// time.
//
// # Errors
//
// Errors have the prefix "etcd:" and wrap those of the client. Nothing that goes wrong between a
// Source or a Reporter and the store ends their Run: it is reported to a hook and tried again. No
// error, and no formatted Config, holds a password.
package etcd
