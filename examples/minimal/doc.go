// SPDX-License-Identifier: Apache-2.0

// Command minimal is a complete node agent that you can copy. It watches a folder of Kubernetes and
// Calico manifests, and programs the policy and routes of the pods of one node.
//
//	datastore.Dir ─▶ calcgraph.Runner ─▶ dataplane.Driver ─▶ nft, then routes
//
// # Usage
//
// The program needs CAP_NET_ADMIN:
//
//	minimal -manifests DIR -node NAME
//
// The host's interface to a pod must have the name that convert.InterfaceName returns. When the
// program ends, its rules and routes stay in the kernel. When it starts again, it reads them and
// changes only what differs.
//
// You can extend your copy. To add a second source, combine both sources with a datastore.Union. To
// read objects of your own, set DirConfig.Decode, or write a datastore.Source. examples/agent shows
// settings, an API, metrics and etcd.
//
// # Concurrency
//
// Run only one such agent at a time in a network namespace.
//
// # Errors
//
// The program ends with exit code 1 if a part cannot start or fails. If a manifest or an object has
// an error, the program logs this error, and programs all other objects.
package main
