// SPDX-License-Identifier: Apache-2.0

// Package pods makes workload endpoints of pods, from two sources: the API, and the CNI plugin of this node.
//
//	informer ── Set, Delete ──▶ Pods ── policy.Update ──▶ datastore.Memory, calcgraph.Runner, ...
//	CNI ADD, DEL ── Attach, Detach ──▶
//
// Kubelet reports a pod's addresses to the API only after CNI ADD has returned. A plugin that waited for the
// API would wait for itself. So Attach gives the endpoint its interface and addresses at once, and the
// pod's labels come from the API, which has the pod before kubelet starts it. Once the pod's status has
// addresses, these count.
//
// Interfaces may have any name, also a random one: it comes with Attach. Until then the endpoint of a pod of
// this node has the name that convert.InterfaceName returns, and waits for such an interface.
//
// After Detach, the pod is no endpoint any more, although the API may still have its addresses: another
// pod may get them.
//
// # Usage
//
//	p := pods.New(pods.Config{Update: func(u policy.Update) { ... }})
//	p.Set(pod)           // an informer's AddFunc and UpdateFunc, for the pods of all nodes
//	err := p.Attach(...) // CNI ADD; then wait with dataplane.Driver.WaitEndpoint
//	p.Detach(...)        // CNI DEL; then wait with dataplane.Driver.WaitRemoved
//
// After a restart, call Attach for each pod that is attached before the informer has synced.
//
// # Concurrency
//
// Pods may be used from several goroutines. Calls of Config.Update do not overlap.
//
// # Errors
//
// Attach returns what is wrong with an attachment. What is wrong with a pod goes to Config.Report.
package pods
