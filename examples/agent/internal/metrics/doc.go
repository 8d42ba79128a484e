// SPDX-License-Identifier: Apache-2.0

// Package metrics has the Prometheus metrics of the agent:
//
//	wayleave_build_info{version,revision,goversion}
//	                                       gauge      1; the labels have the version of the agent
//	wayleave_ready                         gauge      1 if /readyz succeeds; failed endpoints have
//	                                                  no effect on it
//	wayleave_endpoints{state}              gauge      local endpoints that are pending, up, down or failed
//	wayleave_apply_duration_seconds        histogram  time that each attempt to program the kernel took
//	wayleave_apply_failures_total          counter    attempts that failed for at least one object
//	wayleave_apply_batches_total           counter    batches that were applied; one attempt may apply several
//	wayleave_apply_events_total            counter    events in the batches that were applied
//	wayleave_apply_last_timestamp_seconds  gauge      when the last attempt ended; 0 before the first
//	wayleave_queue_batches                 gauge      batches that wait for the kernel
//	wayleave_resyncs_total                 counter    comparisons of the kernel with the desired state
//	wayleave_drifts_total                  counter    changes by other processes, and changes of interfaces
//	wayleave_drift_repairs_total           counter    repairs of objects, and successful resyncs, because of
//	                                                  such changes
//	wayleave_disputes                      gauge      objects that another process changes repeatedly
//	wayleave_updates_total                 counter    updates from the sources
//	wayleave_updates_coalesced_total       counter    updates that a newer one of the same object replaced
//	wayleave_updates_pending               gauge      updates that wait for the graph
//	wayleave_graph_flushes_total           counter    flushes of the graph
//	wayleave_rejected_total                counter    rejections of objects; a rejected object counts
//	                                                  each time that it is read
//	wayleave_policies_in_doubt             gauge      enforced policies with rules that are not
//	                                                  understood and fail closed
//	wayleave_policy_cost                   gauge      cost of all groups that are written as lookups (see below)
//	wayleave_policy_cost_limit             gauge      limit of this cost: above it, the most expensive groups
//	                                                  are written as chains instead
//	wayleave_policy_group_cost_max         gauge      highest cost of a group that is written as lookups
//	wayleave_policy_group_cost_limit       gauge      limit of the cost of a group: above it, the group
//	                                                  is written as chains
//	wayleave_policy_chain_groups           gauge      groups that are written as chains, because they are
//	                                                  over a limit
//	wayleave_pipeline_restarts_total       counter    restarts because of a change of settings
//	wayleave_connections_closed_total      counter    connections to the agent that were closed, because
//	                                                  there were too many
//
// A group consists of the endpoints to which the same policies and profiles apply in one direction.
// In nftables, the policy of a group is written as lookups in maps (the default) or as chains of
// rules. The cost of a group measures the kernel memory of its lookups, in units of
// about 50 to 110 bytes.
//
// If nodes share a store, there are also these metrics:
//
//	wayleave_store_connected               gauge      1 if the last request to the shared store succeeded
//	wayleave_store_objects                 gauge      objects in the store
//	wayleave_store_unusable                gauge      objects in the store that this node cannot read, and
//	                                                  does not use
//	wayleave_store_updates_pending         gauge      objects of the store that wait for the graph
//	wayleave_store_behind_seconds          gauge      age of the oldest update that waits for the graph
//	wayleave_store_read_revision           gauge      revision up to which the store has been read
//	wayleave_store_delivered_revision      gauge      revision up to which the graph has all changes
//	wayleave_store_applied_revision        gauge      revision up to which all changes are in the kernel
//	wayleave_store_connections_total       counter    connections that were made
//	wayleave_store_lists_total             counter    complete reads of the store, also failed ones
//	wayleave_store_watches_total           counter    watches that were begun
//	wayleave_store_events_total            counter    changes that watches reported
//	wayleave_store_resyncs_total           counter    watches that could not be continued
//	wayleave_store_failures_total{kind}    counter    failures when the agent read the store, by kind
//
// The kinds of failures are:
//
//   - unreachable: no server answers, or no server that answers can serve the request.
//   - refused: the server refuses the user or the request.
//   - compacted: etcd no longer has the revision from which the agent wanted to continue.
//   - history: the store is not the one that was read before, for example because a backup was
//     restored.
//   - missed: the agent missed a change.
//   - uninitialised: the store has not been initialised.
//   - newer: a newer version of the agent has initialised the store.
//
// If objects come from a Kubernetes API, there are also these metrics:
//
//	wayleave_kubernetes_objects{kind}      gauge      objects of the kind
//	wayleave_kubernetes_readable{kind}     gauge      1 if the kind can be read, or if the server does not have it
//	wayleave_kubernetes_faulty_objects     gauge      objects that are not understood
//
// While the agent counts flows, there are also the metrics below. The labels name the policy or
// profile that decided, the direction, the verdict, and the reason if no rule decided. Only the
// first 1,000 different decisions have these labels, where a decision is a rule, or a reason
// without a rule. All further decisions have only the label verdict.
//
//	wayleave_flow_connections_total{policy,direction,verdict,reason}
//	                                       counter    connections that the policy allowed
//	wayleave_flow_packets_total{policy,direction,verdict,reason}
//	                                       counter    packets in both directions; if the verdict is deny,
//	                                                  dropped packets
//	wayleave_flow_bytes_total{policy,direction,verdict,reason}
//	                                       counter    bytes in both directions; if the verdict is deny,
//	                                                  those of dropped packets
//	wayleave_flows                         gauge      flows that the agent keeps
//	wayleave_flows_evicted_total           counter    flows that the agent has removed to keep newer ones
//	wayleave_flow_connections_uncounted_total
//	                                       counter    verdicts about connections whose packets are not counted,
//	                                                  because there are too many connections at a time
//	wayleave_flow_verdicts_missed_total    counter    verdicts that are not counted, because a buffer was full
//
// When the pipeline restarts, all metrics begin at 0 again, except those of rejections, restarts,
// connections and flows.
//
// # Usage
//
//	registry, err := metrics.New(func() metrics.Snapshot { ... })
//	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//
// # Concurrency
//
// The registry is safe for concurrent use. It may call the function that returns the Snapshot from
// several goroutines. The package has no global state.
//
// # Errors
//
// New fails only if two metrics conflict.
package metrics
