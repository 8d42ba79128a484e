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
// The interface of a pod on the host must have the name that convert.InterfaceName returns. When
// the program ends, the kernel state stays. The next start reads it and changes only what differs.
//
// You can extend your copy. To add a second source, combine both sources with a datastore.Union. To
// read objects of your own, set DirConfig.Decode, or write a datastore.Source. examples/agent shows
// settings, an API, metrics and etcd.
//
// # Concurrency
//
// One agent at a time may use a network namespace.
//
// # Errors
//
// The program ends with exit code 1 if a part cannot start or fails. Errors of a manifest or an
// object are logged, and all other objects are programmed.
package main
