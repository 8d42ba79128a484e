// SPDX-License-Identifier: Apache-2.0

// Package etcd keeps desired state, and the reports of nodes, in an etcd cluster that many nodes share.
//
//	Store, Writer ──▶ etcd ──▶ Source ──▶ datastore.Receiver   (on every node)
//	Store.Applied ◀── etcd ◀── Reporter                        (on every node)
//
// The package is a module of its own, so that programs without it do not depend on etcd's client. docs/datastore.md has
// the layout of the keys, figures for sizing, and what happens in case of failures.
//
// # Usage
//
// A Client has the connection and the name of the cluster, which is a part of the keys:
//
//	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"https://etcd-1:2379"}, Cluster: "prod", TLS: ...})
//	...
//	defer client.Close()
//
// To set up a cluster, write its objects and then call Store.Init once. Init creates a key, the mark, which means that
// the objects are complete. While there is no mark, a Source ignores the store: it keeps the objects that it has, and
// is not in sync if it has none. So no node loses its policy while you fill a lost database again.
//
//	store, err := etcd.NewStore(etcd.StoreConfig{Client: client})
//	revision, err := store.Put(ctx, resource, etcd.Any)
//	err = store.Init(ctx)
//
// A node runs a Source with the receiver of its updates, usually a calcgraph.Runner. It also runs a Reporter, which
// writes a revision to etcd: the node has applied all changes up to this revision.
//
//	source, err := etcd.NewSource(etcd.SourceConfig{Client: client})
//	err = source.Run(ctx, runner)
//
// A Writer keeps objects in the store equal to a stream of manifests. It also deletes objects that it wrote before if
// the stream no longer has them.
//
// # Values that cannot be read
//
// A Source may read a value that it cannot decode, or that has members or a schema version that this package does not
// know. Then it calls the hook SourceHooks.Rejected with an error, and the receiver does not get the object. A policy
// with some rules that cannot be read is an exception: the Source sends the policy with these rules closed, which means
// that they allow nothing. The receiver finds out which rules these are when it calls policy.Update.Admit. A Store and
// a Writer assume that a newer version of this package wrote such a policy, and do not overwrite it. If a newer version
// has written the mark, the Source stops reading and keeps its objects.
//
// # Concurrency
//
// A Client, a Store, a Writer and a Reporter are safe for concurrent use. The methods Source.Run and Reporter.Run may
// each run only once at a time.
//
// # Errors
//
// Errors have the prefix "etcd:" and wrap those of the client. If a Source or a Reporter cannot use the store, its Run
// calls a hook and retries. No error, and no formatted Config, contains a password.
package etcd
