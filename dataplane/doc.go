// SPDX-License-Identifier: Apache-2.0

// Package dataplane is the contract between the calculation of policy and the programming
// of it: the events that define what a node's kernel must hold, the Dataplane interface
// that backends implement, and the Driver that keeps several backends in step.
//
//	           Batch            Apply          ┌──▶ nft: policy, profiles, IP sets, endpoints
//	graph ──────────────▶ Driver ──────────────┤        then, once an endpoint's policy is in,
//	        back-pressure   merge, retry,      └──▶ routes: the way to the endpoint
//	                        repair, status              │
//	                              ▲       drift         │
//	                              └─────────────────────┘
//
// # Events
//
// A graph emits batches of events in dependency order: whatever is referred to comes
// before what refers to it and goes after it. See Batch for the order.
// A batch is the unit of atomicity: one kernel transaction where the backend can do it.
// Events hold no selectors and no names to look up; they are final.
//
// Routes define where every address is, seen from the node; those of local workloads repeat the
// endpoints, with the type of the pool. A route that leads through a tunnel comes after the
// tunnel and goes before it. Nodes, pools, services, namespaces and service accounts are passed on
// for dataplanes that use their names. A dataplane ignores the events that it has no use for.
//
// # Usage
//
// Make the dataplanes, give them to a Driver in order of dependency, run it, and send
// it what the graph flushes:
//
//	d, err := dataplane.NewDriver(dataplane.DriverConfig{
//		Dataplanes: []dataplane.Dataplane{policyBackend, routeBackend},
//	})
//	go d.Run(ctx)
//	...
//	err = d.Send(ctx, graph.Flush())
//	err = d.WaitProgrammed(ctx, endpoint.Key()) // as a CNI ADD would
//	err = d.WaitRemoved(ctx, endpoint.Key())    // as a CNI DEL would
//	err = d.WaitApplied(ctx)                    // all that was sent so far
//
// Batches that come while the driver is busy, or while DriverConfig.MinInterval holds it back, are
// merged and applied as one. A dataplane that is a Watcher is repaired when it reports a change by
// another process; Resync and DriverConfig.ResyncEvery repair without that. One that is a Finisher
// deletes unused objects while the driver is idle. EndpointChanges reports each change of an
// endpoint's status, Stats and Hooks are for metrics, and Plan returns what a batch would change.
// Shutdown ends Run after the current round and leaves the kernel as it is; Teardown, after that,
// clears it.
//
// # Ordering
//
// An endpoint's policy is in the kernel before its route, and its route is gone before
// its policy goes. If the policy of an endpoint cannot be programmed, its route is
// withheld; the other endpoints go on. After a general error, new and changed routes are withheld from
// the later dataplanes.
//
// # Concurrency
//
// Events are shared freely once sent, and never changed. A Dataplane is called from one
// goroutine. All methods of a Driver may be called from any goroutine.
//
// # Errors
//
// Dataplanes return a join of *ApplyError, one for each object at fault. ApplyErrors takes it
// apart. The Driver never gives up: it retries with back-off and reports in Status. An endpoint
// without an interface is no failure: its state is EndpointDown until the interface is there. Nor is
// an endpoint that is Pending. Methods return the context's error, or ErrStopped after Run has returned.
//
// # Asynchronous dataplanes
//
// Apply may return before an endpoint or a policy is programmed or removed, with an *ApplyError that is
// Pending for it. The endpoint stays EndpointPending, and later dataplanes wait for it. Once it is done or
// has failed, Watch reports a Drift with OnlyFaults, and the Driver calls Apply with an empty batch. Its
// error has the objects that are still pending or at fault.
package dataplane
