// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/flows"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/examples/agent/internal/build"
	"github.com/wayleave/wayleave/examples/agent/internal/metrics"
	"github.com/wayleave/wayleave/policy"
)

//go:embed doc.go
var doc string

func snapshot() metrics.Snapshot {
	ruled := policy.Key{Kind: policy.KindPolicy, Name: "p"}
	return metrics.Snapshot{
		Ready: true, Rejected: 1, Restarts: 2, Doubts: 28, ClosedConns: 29,
		Status: dataplane.Status{Endpoints: map[policy.Key]dataplane.EndpointStatus{
			{Name: "a"}: {State: dataplane.EndpointUp}, {Name: "b"}: {State: dataplane.EndpointFailed},
		}},
		Driver: dataplane.Stats{
			Failed: 3, Batches: 4, Events: 5, Resyncs: 6, Drifts: 7, Repairs: 8, Queue: 9, Last: time.Unix(10, 0),
			Durations: dataplane.Histogram{
				Bounds: []time.Duration{time.Millisecond, time.Second}, Counts: []uint64{1, 2, 3}, Sum: time.Minute,
			},
		},
		Classes: render.ClassStats{
			Cost: 31, MaxTotal: 32, Largest: render.ClassGroup{Cost: 33}, MaxPerGroup: 34, ChainGroups: 35,
		},
		Runner: calcgraph.RunnerStats{Pending: 11, Updates: 12, Coalesced: 13, Flushes: 14},
		Store: &metrics.Store{
			SourceStats: etcd.SourceStats{
				Connected: true, Objects: 15, Pending: 16, Behind: 17 * time.Second, Read: 18, Delivered: 19,
				Connections: 20, Lists: 21, Watches: 22, Events: 23, Resyncs: 24,
				Failures: map[etcd.FailureKind]uint64{etcd.FailureRefused: 25},
			},
			Applied: 26, Unusable: 27,
		},
		Flows: &metrics.Flows{
			Totals: map[flows.Decision]flows.Counts{
				{Allowed: true, Policy: ruled, Direction: policy.Ingress}: {
					Connections: 1, Packets: 2, Bytes: 3, ReplyPackets: 4, ReplyBytes: 5,
				},
				{Allowed: true, Policy: ruled, Direction: policy.Ingress, Rule: 1}: {Connections: 10},
				{Reason: "unknown"}: {Packets: 6, Bytes: 7},
			},
			Stats: flows.Stats{Flows: 41, Evicted: 42, Uncounted: 43}, MissedVerdicts: 44,
		},
		Kubernetes: &kubernetes.Status{Faulty: 36, Kinds: []kubernetes.KindStatus{
			{Kind: "pods", State: kubernetes.StateSynced, Objects: 37},
			{Kind: "nodes", State: kubernetes.StateSynced, Objects: 38, Err: errors.New("away")},
			{Kind: "namespaces", State: kubernetes.StateWaiting},
			{Kind: "ippools", State: kubernetes.StateOmitted},
			{Kind: "tiers", State: kubernetes.StateNotServed},
		}},
	}
}

// Flows are counted by policy, direction and verdict, not by rule.
func TestFlows(t *testing.T) {
	r, err := metrics.New(snapshot)
	require.NoError(t, err)
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(`
# HELP wayleave_flow_bytes_total Bytes in both directions; if the verdict is deny, those of dropped packets.
# TYPE wayleave_flow_bytes_total counter
wayleave_flow_bytes_total{direction="",policy="",reason="unknown",verdict="deny"} 7
wayleave_flow_bytes_total{direction="ingress",policy="Policy/p",reason="",verdict="allow"} 8
# HELP wayleave_flow_connections_total Connections that policy allowed.
# TYPE wayleave_flow_connections_total counter
wayleave_flow_connections_total{direction="",policy="",reason="unknown",verdict="deny"} 0
wayleave_flow_connections_total{direction="ingress",policy="Policy/p",reason="",verdict="allow"} 11
# HELP wayleave_flow_packets_total Packets in both directions; if the verdict is deny, dropped packets.
# TYPE wayleave_flow_packets_total counter
wayleave_flow_packets_total{direction="",policy="",reason="unknown",verdict="deny"} 6
wayleave_flow_packets_total{direction="ingress",policy="Policy/p",reason="",verdict="allow"} 6
`), "wayleave_flow_bytes_total", "wayleave_flow_connections_total", "wayleave_flow_packets_total"))
}

func TestMetrics(t *testing.T) {
	r, err := metrics.New(snapshot)
	require.NoError(t, err)
	want := `
# HELP wayleave_apply_duration_seconds Time that each attempt to program the kernel took.
# TYPE wayleave_apply_duration_seconds histogram
wayleave_apply_duration_seconds_bucket{le="0.001"} 1
wayleave_apply_duration_seconds_bucket{le="1"} 3
wayleave_apply_duration_seconds_bucket{le="+Inf"} 6
wayleave_apply_duration_seconds_sum 60
wayleave_apply_duration_seconds_count 6
# HELP wayleave_endpoints Local endpoints by state.
# TYPE wayleave_endpoints gauge
wayleave_endpoints{state="down"} 0
wayleave_endpoints{state="failed"} 1
wayleave_endpoints{state="pending"} 0
wayleave_endpoints{state="up"} 1
`
	require.NoError(t,
		testutil.GatherAndCompare(r, strings.NewReader(want), "wayleave_apply_duration_seconds", "wayleave_endpoints"))
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(`
# HELP wayleave_store_failures_total Failures of the shared store, by kind.
# TYPE wayleave_store_failures_total counter
wayleave_store_failures_total{kind="compacted"} 0
wayleave_store_failures_total{kind="missed"} 0
wayleave_store_failures_total{kind="history"} 0
wayleave_store_failures_total{kind="newer"} 0
wayleave_store_failures_total{kind="refused"} 25
wayleave_store_failures_total{kind="uninitialised"} 0
wayleave_store_failures_total{kind="unreachable"} 0
`), "wayleave_store_failures_total"))
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(`
# HELP wayleave_kubernetes_faulty_objects Objects of the Kubernetes API that are not understood.
# TYPE wayleave_kubernetes_faulty_objects gauge
wayleave_kubernetes_faulty_objects 36
# HELP wayleave_kubernetes_objects Objects of the Kubernetes API.
# TYPE wayleave_kubernetes_objects gauge
wayleave_kubernetes_objects{kind="namespaces"} 0
wayleave_kubernetes_objects{kind="nodes"} 38
wayleave_kubernetes_objects{kind="pods"} 37
wayleave_kubernetes_objects{kind="tiers"} 0
# HELP wayleave_kubernetes_readable 1 if the kind can be read from the Kubernetes API, or if the server `+
		"does not have it."+`
# TYPE wayleave_kubernetes_readable gauge
wayleave_kubernetes_readable{kind="namespaces"} 0
wayleave_kubernetes_readable{kind="nodes"} 0
wayleave_kubernetes_readable{kind="pods"} 1
wayleave_kubernetes_readable{kind="tiers"} 1
`), "wayleave_kubernetes_objects", "wayleave_kubernetes_readable", "wayleave_kubernetes_faulty_objects"))
	b := build.Read()
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(fmt.Sprintf(`
# HELP wayleave_build_info 1; the labels have the version of the agent.
# TYPE wayleave_build_info gauge
wayleave_build_info{goversion=%q,revision=%q,version=%q} 1
# HELP wayleave_ready 1 if the agent is ready, as in /readyz; failed endpoints are in wayleave_endpoints.
# TYPE wayleave_ready gauge
wayleave_ready 1
`, b.GoVersion, b.Revision, b.Version)), "wayleave_build_info", "wayleave_ready"))
	got := map[string]float64{}
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "wayleave_") {
			continue
		}
		require.Contains(t, doc, "//\t"+f.GetName(), "documented")
		require.Contains(t, doc, strings.ToLower(f.GetType().String()))
		m := f.GetMetric()[0]
		got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	require.Len(t, got, strings.Count(doc, "//\twayleave_"), "the documented metrics exist")
	require.Equal(t, 10.0, got["wayleave_apply_last_timestamp_seconds"])
	require.Equal(t, 2.0, got["wayleave_pipeline_restarts_total"])
	require.Equal(t, 14.0, got["wayleave_graph_flushes_total"])
	for i, name := range []string{
		"objects", "updates_pending", "behind_seconds", "read_revision", "delivered_revision", "connections_total",
		"lists_total", "watches_total", "events_total", "resyncs_total",
	} {
		require.Equal(t, float64(15+i), got["wayleave_store_"+name], name)
	}
	require.Equal(t, 1.0, got["wayleave_store_connected"])
	require.Equal(t, 28.0, got["wayleave_policies_in_doubt"])
	for i, name := range []string{"cost", "cost_limit", "group_cost_max", "group_cost_limit", "chain_groups"} {
		require.Equal(t, float64(31+i), got["wayleave_policy_"+name], name)
	}
	require.Equal(t, 29.0, got["wayleave_connections_closed_total"])
	for i, name := range []string{
		"flows", "flows_evicted_total", "flow_connections_uncounted_total", "flow_verdicts_missed_total",
	} {
		require.Equal(t, float64(41+i), got["wayleave_"+name], name)
	}
	require.Equal(t, 26.0, got["wayleave_store_applied_revision"])
	require.Equal(t, 27.0, got["wayleave_store_unusable"])
	problems, err := testutil.GatherAndLint(r)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestMetricsBeforeFirstApply(t *testing.T) {
	r, err := metrics.New(func() metrics.Snapshot { return metrics.Snapshot{} })
	require.NoError(t, err)
	_, err = r.Gather()
	require.NoError(t, err)
}
