// SPDX-License-Identifier: Apache-2.0

// Package metrics has the Prometheus metrics of the agent:
//
//	wayleave_build_info{version,revision,goversion}
//	                                       gauge      1; the labels have the version of the agent
//	wayleave_ready                         gauge      1 if the agent is ready, as /readyz has it,
//	                                                  also while endpoints are failed
//	wayleave_endpoints{state}              gauge      local endpoints that are pending, up, down or failed
//	wayleave_apply_duration_seconds        histogram  attempts to program the kernel
//	wayleave_apply_failures_total          counter    attempts that failed, if only for one object
//	wayleave_apply_batches_total           counter    batches that were applied, several in one attempt perhaps
//	wayleave_apply_events_total            counter    events in them
//	wayleave_apply_last_timestamp_seconds  gauge      when the last attempt ended; 0 before the first
//	wayleave_queue_batches                 gauge      batches that wait for the kernel
//	wayleave_resyncs_total                 counter    comparisons of the kernel with the desired state
//	wayleave_drifts_total                  counter    changes by other processes, and of interfaces
//	wayleave_drift_repairs_total           counter    objects repaired at once, and successful resyncs,
//	                                                  because of these
//	wayleave_disputes                      gauge      objects that another process changes repeatedly
//	wayleave_updates_total                 counter    updates from the sources
//	wayleave_updates_coalesced_total       counter    updates that a later one replaced
//	wayleave_updates_pending               gauge      updates that wait for the graph
//	wayleave_graph_flushes_total           counter    flushes of the graph
//	wayleave_rejected_total                counter    objects that are rejected, each time that they are read
//	wayleave_policies_in_doubt             gauge      policies in force with rules that are not understood
//	                                                  and fail closed
//	wayleave_policy_cost                   gauge      cost of policy in the form of lookups, in elements
//	wayleave_policy_cost_limit             gauge      cost above which the most expensive groups become
//	                                                  chains
//	wayleave_policy_group_cost_max         gauge      cost of the most expensive group in the form of
//	                                                  lookups
//	wayleave_policy_group_cost_limit       gauge      cost above which a group becomes chains
//	wayleave_policy_chain_groups           gauge      groups that are over a limit and so are chains
//	wayleave_pipeline_restarts_total       counter    restarts because of a change of settings
//	wayleave_connections_closed_total      counter    connections that the limit of connections closed
//
// and, if nodes share a store,
//
//	wayleave_store_connected               gauge      1 if the last request to the shared store succeeded
//	wayleave_store_objects                 gauge      objects in it
//	wayleave_store_unusable                gauge      objects in it that cannot be read, and are absent here
//	wayleave_store_updates_pending         gauge      objects of it that wait for the graph
//	wayleave_store_behind_seconds          gauge      age of the oldest update that waits for the graph
//	wayleave_store_read_revision           gauge      revision up to which it has been read
//	wayleave_store_delivered_revision      gauge      revision up to which the graph has all changes
//	wayleave_store_in_force_revision       gauge      revision up to which all changes are in the kernel
//	wayleave_store_connections_total       counter    connections that were made
//	wayleave_store_lists_total             counter    complete reads of the store
//	wayleave_store_watches_total           counter    watches that were begun
//	wayleave_store_events_total            counter    changes that watches reported
//	wayleave_store_resyncs_total           counter    watches that could not be continued
//	wayleave_store_failures_total{kind}    counter    failures: unreachable, refused, compacted,
//	                                                  history, missed, uninitialised or newer
//
// and, if objects come from a Kubernetes API,
//
//	wayleave_kubernetes_objects{kind}      gauge      objects of the kind
//	wayleave_kubernetes_readable{kind}     gauge      1 if the kind can be read, or if the server does not have it
//	wayleave_kubernetes_faulty_objects     gauge      objects that are not understood
//
// and, while flows are counted, the following. Metrics with labels have a value for each decision
// of a policy, for at most 1,000 decisions:
//
//	wayleave_flow_connections_total{policy,direction,verdict,reason}
//	                                       counter    connections that the policy allowed
//	wayleave_flow_packets_total{policy,direction,verdict,reason}
//	                                       counter    packets in both directions, or those that were dropped
//	wayleave_flow_bytes_total{policy,direction,verdict,reason}
//	                                       counter    bytes in both directions, or those that were dropped
//	wayleave_flows                         gauge      flows that are known
//	wayleave_flows_evicted_total           counter    flows that others have replaced
//	wayleave_flow_connections_uncounted_total
//	                                       counter    connections whose packets are not counted: too many at a time
//	wayleave_flow_verdicts_missed_total    counter    verdicts that were dropped for lack of room
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
