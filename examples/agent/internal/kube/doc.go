// SPDX-License-Identifier: Apache-2.0

// Package kube reads objects and settings from the API of a Kubernetes cluster, and writes announcements of the node.
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
// The API is read once, even if the pipeline restarts: the objects are kept, packed, for the next
// pipeline. So a change of settings on all nodes does not make all of them list the cluster again.
//
// # Concurrency
//
// An API is safe for concurrent use. Run can be called once. Its source runs for one pipeline at a
// time.
//
// # Errors
//
// Errors of Connect begin with the name of the setting. Errors of the API server do not end Run:
// they are logged, State has them, and the request is sent again.
package kube
