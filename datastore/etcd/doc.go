// SPDX-License-Identifier: Apache-2.0

// Package etcd keeps desired state, and the reports of nodes, in an etcd cluster that many nodes
// share.
//
//	Store, Writer ──▶ etcd ──▶ Source ──▶ datastore.Receiver   (on every node)
//	Store.Applied ◀── etcd ◀── Reporter                        (on every node)
//
// The package is a module of its own, so that programs without it do not depend on etcd's client.
// See docs/datastore.md for the layout of the keys, figures for sizing, and what happens in case of
// failures.
//
// # Usage
//
// A Client has the connection and the name of the cluster, which is a part of the keys:
//
//	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"https://etcd-1:2379"}, Cluster: "prod", TLS: ...})
//	...
//	defer client.Close()
//
// To set up a cluster, write its objects and then call Store.Init once. Init creates a key, the
// mark, which means that the objects are complete. While there is no mark, a Source keeps the
// objects that it has, and a new Source is not in sync. So no node loses its policy while you fill
// a lost database again.
//
//	store, err := etcd.NewStore(etcd.StoreConfig{Client: client})
//	revision, err := store.Put(ctx, resource, etcd.Any)
//	err = store.Init(ctx)
//
// A Writer keeps objects in the store equal to a stream of manifests.
//
// A node runs a Source with the receiver of its updates, usually a calcgraph.Runner:
//
//	source, err := etcd.NewSource(etcd.SourceConfig{Client: client})
//	err = source.Run(ctx, runner)
//
// It also runs a Reporter, which writes to etcd the revision up to which the node has applied all
// changes.
//
// # Values that cannot be read
//
// A value may have a wrong syntax, or a schema version or a member that this package does not know.
// For each value that a Source cannot read, it calls the hook SourceHooks.Rejected with an error.
// The receiver does not get the object. Two values are treated in another way:
//
//   - A policy with some rules that cannot be read: the Source sends the policy with these rules
//     closed, which means that they allow nothing. The error of policy.Update.Admit lists these
//     rules. A Store and a Writer do not overwrite the policy.
//   - A mark that a newer version of this package wrote: the Source stops reading and keeps its
//     objects.
//
// # Concurrency
//
// A Client, a Store, a Writer and a Reporter are safe for concurrent use. For each Source and each
// Reporter, only one call of Run may be active at a time: a second call returns ErrRunning.
//
// # Errors
//
// Errors have the prefix "etcd:" and wrap those of the client. If a Source or a Reporter cannot use
// the store, its Run calls a hook and retries. No error, and no formatted Config, contains a
// password.
package etcd
