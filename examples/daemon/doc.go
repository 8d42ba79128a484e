// SPDX-License-Identifier: Apache-2.0

// Command daemon enforces NetworkPolicy on a node for a CNI plugin that makes links, addresses and
// routes itself. The daemon makes informers of client-go, and its Source reads the API server
// through them. The plugin reports ADD and DEL on a socket. docs/cni.md explains each step.
//
//	informers, dynamic client ─▶ datastore/kubernetes ─▶ calcgraph ─▶ dataplane.Driver ─▶ nft
//	socket ── Attach, Detach ──▶
//
// The function wire connects these parts. Copy it into your own daemon.
//
// # Usage
//
// The daemon needs CAP_NET_ADMIN, and the rights to get, list and watch the kinds that
// datastore/kubernetes.Kinds lists, except those that the flag --omit names:
//
//	daemon --node NAME [--kubeconfig FILE] [--omit KINDS]
//
// Your plugin must give the node's end of each link a name that begins with "pod". For ADD and DEL
// it must send a request over the socket, as below. When /add returns, the policy of the pod is
// enforced. When /del returns, the policy of the pod has been removed from the kernel, and the
// plugin can remove the link and free the addresses:
//
//	curl --unix-socket /run/wayleave-daemon/socket http://daemon/add -d '{"namespace": "shop",
//	  "name": "web", "uid": "6f1c", "interface": "pod6f1c", "addresses": ["10.1.0.7"]}'
//	curl --unix-socket /run/wayleave-daemon/socket http://daemon/del -d '{"namespace": "shop",
//	  "name": "web", "uid": "6f1c"}'
//
// The daemon stores the links in files, and reads them after a restart.
//
// # Concurrency
//
// One daemon at a time may run on a node. Requests for different pods may run at once.
//
// # Errors
//
// The program ends with exit code 1 if a part cannot start or fails; the kernel keeps the policy.
//
// If a request fails, its response has the status 400 or 500, and the reason as text. The plugin
// must then also fail, so that the container runtime calls it again. While the API server is
// unavailable, requests wait until the plugin closes the connection.
//
// If the daemon does not understand an object, it logs the object's name and the error. A policy
// rule that it does not understand allows nothing.
package main
