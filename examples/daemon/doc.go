// SPDX-License-Identifier: Apache-2.0

// Command daemon enforces NetworkPolicy on a node for a CNI plugin that makes links, addresses and
// routes itself. It reads the API server with a Source, to which it gives its informers, and a
// socket on which the plugin reports ADD and DEL. docs/cni.md explains each step.
//
//	informers, dynamic client ─▶ datastore/kubernetes ─▶ calcgraph ─▶ dataplane.Driver ─▶ nft
//	socket ── Attach, Detach ──▶
//
// The function wire connects these parts. It is the one to copy.
//
// # Usage
//
// It needs CAP_NET_ADMIN, and the rights to get, list and watch the kinds that
// datastore/kubernetes.Kinds lists, except those that the flag omit names:
//
//	daemon --node NAME [--kubeconfig FILE] [--omit KINDS]
//
// The plugin names the node's side of links "pod...", and sends a request over the socket. When
// /add returns, policy of the pod is in force; when /del returns, nothing of the pod is in the
// kernel, and its link and addresses can go:
//
//	curl --unix-socket /run/wayleave-daemon/socket http://daemon/add -d '{"namespace": "shop",
//	  "name": "web", "uid": "6f1c", "interface": "pod6f1c", "addresses": ["10.1.0.7"]}'
//	curl --unix-socket /run/wayleave-daemon/socket http://daemon/del -d '{"namespace": "shop",
//	  "name": "web", "uid": "6f1c"}'
//
// The links are kept in files, so that the next daemon knows them.
//
// # Concurrency
//
// One daemon at a time may run on a node. The requests of different pods may overlap.
//
// # Errors
//
// The program ends with exit code 1 if a part cannot start or fails; the kernel keeps the policy.
// A request that fails has a status of 400 or 500 and the reason as text: the runtime repeats it.
// While the API server is away, requests wait until the plugin closes the connection. An object
// that is not understood is logged by name and fails closed.
package main
