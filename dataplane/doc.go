// SPDX-License-Identifier: Apache-2.0

// Package dataplane is the contract between the calculation of policy and the programming of the
// kernel. It defines:
//
//   - events, which describe what the kernel of one node must hold;
//   - [Dataplane], the interface that a backend for nftables, routes or another target implements;
//   - [Driver], which programs several backends in order, retries, and reports status.
//
// A batch reaches the kernel as follows:
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
// The calculation graph (package calcgraph) turns resources such as policies, endpoints and nodes
// into batches of events. In a batch, an object is added before the objects that refer to it, and
// removed after them; [Batch] lists the order. A backend applies a batch in one transaction of the
// kernel where it can. The rules in events contain no selectors, named ports or services: the
// graph has replaced them by IP sets.
//
// Every node gets a RouteUpdate for each known address. If the address belongs to a workload on the
// node itself, the address is in two events. The EndpointUpdate has the workload's interface, and
// the RouteUpdate has the type of the address's pool. If a route leads through a tunnel, the tunnel
// is added before the route and removed after it.
//
// There are also events for nodes, pools, services, namespaces and service accounts, for dataplanes
// that use their names or labels. A dataplane ignores the events that it has no use for.
//
// # Usage
//
// Make the dataplanes, and give them to a Driver in order of dependency: policy before routes. Run
// the Driver, and send it the batches of the graph:
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
// While the Driver is busy, or while DriverConfig.MinInterval delays it, it merges the batches that
// arrive and applies them as one. A dataplane may implement further interfaces:
//
//   - A [Watcher] reports changes by other processes. The Driver then calls the Watcher's Resync,
//     which repairs them. For a dataplane that is not a Watcher, set DriverConfig.ResyncEvery, or
//     call Driver.Resync.
//   - A [Finisher] deletes unused objects while the Driver is idle.
//   - A [Planner] computes what a batch would change. Driver.Plan returns the result.
//   - A [Limited] dataplane names the traffic that policy does not see.
//
// EndpointChanges reports each change of an endpoint's status. Stats and Hooks are for metrics.
// Shutdown ends Run after the current attempt, and leaves the kernel as it is. After Shutdown,
// Teardown removes everything from the kernel.
//
// # Ordering
//
// An endpoint must not have a route while its policy is missing. So an endpoint's policy is added
// to the kernel before its route, and removed after its route. If the policy of an endpoint cannot
// be programmed, the Driver withholds the endpoint. The Driver does not send a withheld endpoint to
// later dataplanes, so this endpoint gets no route. Other endpoints are not affected. If a
// dataplane returns an error that names no object, the later dataplanes get no new or changed
// routes at all.
//
// # Concurrency
//
// Several goroutines may share events, because an event does not change after it is sent. A
// Dataplane is called from one goroutine, except for [Watcher].Watch. All methods of a Driver may
// be called from any goroutine.
//
// # Errors
//
// A Dataplane returns a join of [*ApplyError], one for each object that cannot be programmed.
// [ApplyErrors] splits the join. The Driver never gives up: it retries with back-off, and reports
// the error in Status.
//
// Two states of an endpoint are no failures. An endpoint whose interface does not exist is
// EndpointDown until the interface is there. If a dataplane continues to program an endpoint after
// Apply has returned, the endpoint is EndpointPending until it is programmed.
//
// Methods of a Driver return the context's error, or [ErrStopped] after Run has returned.
//
// # Asynchronous dataplanes
//
// A dataplane may program or remove an endpoint or a policy after Apply has returned. For each such
// object, Apply then returns an ApplyError whose field Pending is true. This is no failure. If the
// object is an endpoint, or a policy of an endpoint, the endpoint is EndpointPending meanwhile, and
// is withheld from later dataplanes. When the dataplane is done or has failed, its method Watch
// reports a [Drift] whose field OnlyFaults is true. The Driver then calls Apply with an empty
// batch. This call returns the objects that are still pending or at fault.
package dataplane
