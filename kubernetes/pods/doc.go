// SPDX-License-Identifier: Apache-2.0

// Package pods makes workload endpoints of pods, from their objects in the API and the data of the
// node's CNI plugin.
//
//	informer ── Set, Delete ──▶ Pods ── policy.Update ──▶ datastore.Memory, calcgraph.Runner, ...
//	CNI ADD, DEL ── Attach, Detach ──▶
//
// Kubelet reports a pod's addresses to the API only after CNI ADD has returned, so the plugin
// cannot wait until the API has them. Attach gives the endpoint its interface and addresses at
// once. The pod's labels come from the API, which has the pod before kubelet starts it. Once the
// pod's status in the API has the addresses of Attach, Pods uses the addresses of the status.
// Before that, the status may have addresses of an earlier interface of the pod. Another pod may
// already have these addresses, so Pods does not use them.
//
// The interface of a pod may have any name: pass the name to Attach. If Attach was not called for a
// pod, its endpoint has the interface with the name that convert.InterfaceName returns.
//
// After Detach, the pod is not an endpoint, even if the API still has its addresses, because
// another pod may get them. Pods remembers the UIDs of the last 4,096 detached pods. After a
// restart of the program, it no longer knows them. Therefore it also compares addresses. A pod of
// this node without an attachment is not an endpoint if one of its addresses belongs to an attached
// pod.
//
// # Usage
//
// Use this package in programs without a Source of datastore/kubernetes: a Source has Attach and
// Detach itself.
//
//	p, err := pods.New(pods.Config{Node: "n1", Update: func(u policy.Update) { ... }})
//	p.Set(pod)           // in AddFunc and UpdateFunc of an informer, for the pods of all nodes
//	err = p.Attach(...)  // CNI ADD; then wait: datastore.Memory.Barrier, dataplane.Driver.WaitEndpoint
//	gone := p.Detach(..) // CNI DEL; if gone, wait: datastore.Memory.Barrier, dataplane.Driver.WaitRemoved
//
// On a node of Kubernetes, configure the dataplane with policy.HostConfig{EndpointToHostAction:
// policy.HostAccept}. Without this setting, pods can reach neither their own node nor the pods with
// host networking on it.
//
// After a restart, first call Attach for each pod that is attached already. Then call Run of a
// datastore.Memory, or InSync of a calcgraph.Runner. This second call marks the endpoints as
// complete. It removes the rules and routes of every endpoint that is not known by then.
//
// # Concurrency
//
// Pods is safe for concurrent use. Calls of Config.Update and Config.Report do not overlap.
//
// # Errors
//
// Attach returns an error for an invalid attachment. Config.Report receives the errors of a pod.
package pods
