// SPDX-License-Identifier: Apache-2.0

// Package metrics turns what the agent counts into Prometheus metrics:
//
//	wayleave_ready                         gauge      1 if what is in the kernel is what the sources say
//	wayleave_endpoints{state}              gauge      local endpoints that are pending, up or failed
//	wayleave_apply_duration_seconds        histogram  attempts to program the kernel
//	wayleave_apply_failures_total          counter    attempts that failed, if only for one object
//	wayleave_apply_batches_total           counter    batches that were applied, several in one attempt perhaps
//	wayleave_apply_events_total            counter    events in them
//	wayleave_apply_last_timestamp_seconds  gauge      when the last attempt ended; 0 before the first
//	wayleave_queue_batches                 gauge      batches that wait for the kernel
//	wayleave_resyncs_total                 counter    comparisons of the kernel with what it should hold
//	wayleave_drifts_total                  counter    changes that somebody else made
//	wayleave_drift_repairs_total           counter    repairs of these
//	wayleave_updates_total                 counter    updates from the sources
//	wayleave_updates_coalesced_total       counter    updates that were overtaken by a later one
//	wayleave_updates_pending               gauge      updates that wait for the graph
//	wayleave_graph_flushes_total           counter    flushes of the graph
//	wayleave_rejected_total                counter    objects that make no sense, each time they came
//	wayleave_pipeline_restarts_total       counter    restarts because of a change of settings
//
// All but the last two begin anew when the pipeline restarts.
//
// # Usage
//
//	registry, err := metrics.New(func() metrics.Snapshot { ... })
//	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//
// # Concurrency
//
// The registry is safe for concurrent use; the function is called from several goroutines. Nothing is global.
//
// # Errors
//
// New fails only where the metrics contradict each other.
package metrics
