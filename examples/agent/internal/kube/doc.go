// SPDX-License-Identifier: Apache-2.0

// Package kube reads objects and settings from the API of a Kubernetes cluster. It also writes to
// the API: the node's WireGuard keys, and reports about the node.
//
// A kubernetes.Source lists the objects once, and then watches them. With Attach and Detach, the
// same source also gets the interfaces that a CNI plugin makes and removes for pods of this node. A
// pipeline is the part of the agent that programs the kernel. Between the source and the pipeline
// is a relay: it keeps all objects in memory, and sends them to the pipeline. A change of settings
// ends the pipeline, and starts a new one. The relay then sends the objects to the new pipeline.
// Without the relay, all nodes would list the whole cluster again after a change of settings.
//
//	API server ── watches ──▶ kubernetes.Source ──▶ relay ──▶ pipeline, one after the other
//	CNI plugin ── Attach, Detach ──▶
//	ConfigMaps ── watches ──▶ settings
//	WireGuard keys ── AnnounceWireguard ──▶ announcer ── patch ──▶ Node
//
// # Usage
//
//	clients, err := kube.Connect(settings)
//	a, err := kube.New(kube.Config{Clients: clients, Node: "n1", Rejected: ..., Logger: ...})
//	err = a.Attach(endpoint, uid)        // of each pod that has a link already
//	go a.Run(ctx)                        // as long as the agent runs
//	sources = append(sources, datastore.NamedSource{Name: kube.Name, Source: a.Source()})
//
// # Concurrency
//
// An API is safe for concurrent use. Run may be called only once. The source of an API may run for
// one pipeline at a time.
//
// # Errors
//
// Errors of Connect begin with the name of the setting. An error of the API server does not end
// Run. The error is in the log and in State, and the request is sent again.
package kube
