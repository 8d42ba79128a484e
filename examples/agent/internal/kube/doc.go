// SPDX-License-Identifier: Apache-2.0

// Package kube joins a node to the API of a Kubernetes cluster: objects and settings come from there.
//
//	API server ── watches ──▶ kubernetes.Source ──▶ relay ──▶ pipeline, one after the other
//	CNI plugin ── Attach, Detach ──▶
//	ConfigMaps ── watches ──▶ settings
//
// # Usage
//
//	clients, err := kube.Connect(settings)
//	a, err := kube.New(kube.Config{Clients: clients, Node: "n1", Rejected: ..., Logger: ...})
//	err = a.Attach(ref, endpoint)        // of each pod that has a link already
//	go a.Run(ctx)                        // as long as the agent runs
//	sources = append(sources, datastore.NamedSource{Name: kube.Name, Source: a.Source()})
//
// The API is read once, however often the pipeline starts anew: its objects are kept, packed, for the next
// pipeline. A change of settings on all nodes does not make all of them list the cluster again.
//
// # Concurrency
//
// An API is safe for concurrent use. Run is called once. Its source is run for one pipeline at a time.
//
// # Errors
//
// Errors of Connect begin with the setting. Nothing that goes wrong with the server ends anything: it is logged, is
// in State, and is tried again.
package kube
