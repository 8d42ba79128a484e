// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/examples/agent/internal/build"
)

// Snapshot has all counters of the agent at one moment.
type Snapshot struct {
	Ready              bool
	Status             dataplane.Status
	Driver             dataplane.Stats
	Runner             calcgraph.RunnerStats
	Rejected, Restarts uint64
	// ClosedConns is how many connections were closed because of the limit of connections.
	ClosedConns uint64
	// Doubts is the number of enforced policies with a rule that has a field that is not
	// understood.
	Doubts int
	// Disputes is the number of objects in the kernel that another process changes repeatedly.
	Disputes int
	// Classes has the cost of policy, and the limits of this cost.
	Classes render.ClassStats
	// Store has the counters of the etcd that nodes share; nil if the agent uses no etcd.
	Store *Store
	// Kubernetes has the status of the source that reads the Kubernetes API; nil if the agent has
	// no such source.
	Kubernetes *kubernetes.Status
	// Flows has the counters of flows; nil if flows are not counted.
	Flows *Flows
}

// Store has the counters of the etcd that nodes share.
type Store struct {
	etcd.SourceStats
	// Applied is the revision up to which all changes are in the kernel.
	Applied etcd.Revision
	// Unusable is how many objects of the store cannot be used, and are absent on this node.
	Unusable int
}

// New returns a registry with the metrics of the agent and of the process. It fails if two metrics
// conflict.
func New(take func() Snapshot) (*prometheus.Registry, error) {
	r := prometheus.NewPedanticRegistry()
	for _, c := range []prometheus.Collector{
		newCollector(take),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// metric is a metric that is a plain number.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(Snapshot) float64
}

// collector computes metrics from a Snapshot. It is immutable.
type collector struct {
	take      func() Snapshot
	metrics   []metric
	store     []storeMetric
	failures  *prometheus.Desc
	api       apiDescs
	flows     flowDescs
	endpoints *prometheus.Desc
	durations *prometheus.Desc
	build     *prometheus.Desc
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("wayleave_"+name, help, labels, nil)
}

func newCollector(take func() Snapshot) *collector {
	c := &collector{
		take:      take,
		api:       newAPIDescs(),
		flows:     newFlowDescs(),
		endpoints: describe("endpoints", "Local endpoints by state.", "state"),
		build: describe("build_info", "1; the labels have the version of the agent.", "version", "revision",
			"goversion"),
		durations: describe("apply_duration_seconds", "Time that each attempt to program the kernel took."),
	}
	add := func(kind prometheus.ValueType, name, help string, read func(Snapshot) float64) {
		c.metrics = append(c.metrics, metric{describe(name, help), kind, read})
	}
	count := func(name, help string, read func(Snapshot) uint64) {
		add(prometheus.CounterValue, name, help, func(s Snapshot) float64 { return float64(read(s)) })
	}
	gauge := func(name, help string, read func(Snapshot) float64) { add(prometheus.GaugeValue, name, help, read) }
	gauge("ready", "1 if the agent is ready, as in /readyz; failed endpoints are in wayleave_endpoints.", ready)
	gauge("queue_batches", "Batches that wait for the kernel.",
		func(s Snapshot) float64 { return float64(s.Driver.Queue) })
	gauge("apply_last_timestamp_seconds", "When the last attempt ended.", last)
	gauge("updates_pending", "Updates that wait for the graph.",
		func(s Snapshot) float64 { return float64(s.Runner.Pending) })
	gauge("policies_in_doubt", "Enforced policies with rules that are not understood and fail closed.",
		func(s Snapshot) float64 { return float64(s.Doubts) })
	gauge("disputes", "Objects in the kernel that another process changes repeatedly.",
		func(s Snapshot) float64 { return float64(s.Disputes) })
	addPolicy(gauge)
	count("apply_failures_total", "Attempts that failed.", func(s Snapshot) uint64 { return s.Driver.Failed })
	count("apply_batches_total", "Batches that were applied.", func(s Snapshot) uint64 { return s.Driver.Batches })
	count("apply_events_total", "Events that were applied.", func(s Snapshot) uint64 { return s.Driver.Events })
	count("resyncs_total", "Comparisons of the kernel with the desired state.",
		func(s Snapshot) uint64 { return s.Driver.Resyncs })
	count("drifts_total", "Changes by other processes, and of interfaces.",
		func(s Snapshot) uint64 { return s.Driver.Drifts })
	count("drift_repairs_total", "Objects repaired at once, and successful resyncs, because of drifts.",
		func(s Snapshot) uint64 { return s.Driver.Repairs })
	count("updates_total", "Updates from the sources.", func(s Snapshot) uint64 { return s.Runner.Updates })
	count("updates_coalesced_total",
		"Updates replaced by a newer update of the same object before the graph processed them.",
		func(s Snapshot) uint64 { return s.Runner.Coalesced })
	count("graph_flushes_total", "Flushes of the graph.", func(s Snapshot) uint64 { return s.Runner.Flushes })
	count("rejected_total", "Objects that are rejected.", func(s Snapshot) uint64 { return s.Rejected })
	count("pipeline_restarts_total", "Restarts because of a change of settings.",
		func(s Snapshot) uint64 { return s.Restarts })
	count("connections_closed_total", "Connections that the limit of connections closed.",
		func(s Snapshot) uint64 { return s.ClosedConns })
	c.addStore()
	return c
}

// addPolicy adds the cost of policy and its limits.
func addPolicy(gauge func(name, help string, read func(Snapshot) float64)) {
	gauge("policy_cost", "Cost of policy that is written as lookups, in units of about 50 to 110 bytes.",
		func(s Snapshot) float64 { return float64(s.Classes.Cost) })
	gauge("policy_cost_limit", "Cost beyond which the most expensive groups are written as chains.",
		func(s Snapshot) float64 { return float64(s.Classes.MaxTotal) })
	gauge("policy_group_cost_max", "Cost of the most expensive group that is written as lookups.",
		func(s Snapshot) float64 { return float64(s.Classes.Largest.Cost) })
	gauge("policy_group_cost_limit", "Cost beyond which a group is written as chains.",
		func(s Snapshot) float64 { return float64(s.Classes.MaxPerGroup) })
	gauge("policy_chain_groups", "Groups of endpoints whose policy is over a limit and written as chains.",
		func(s Snapshot) float64 { return float64(s.Classes.ChainGroups) })
}

func ready(s Snapshot) float64 { return truth(s.Ready) }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func last(s Snapshot) float64 {
	if s.Driver.Last.IsZero() {
		return 0
	}
	return float64(s.Driver.Last.UnixMicro()) / 1e6
}

// Describe sends the descriptions of all metrics; see prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		out <- m.desc
	}
	c.describeStore(out)
	c.api.describe(out)
	c.flows.describe(out)
	out <- c.endpoints
	out <- c.durations
	out <- c.build
}

// Collect sends the values; see prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.take()
	for _, m := range c.metrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.read(s))
	}
	c.collectStore(s.Store, out)
	c.api.collect(s.Kubernetes, out)
	c.flows.collect(s.Flows, out)
	b := build.Read()
	out <- prometheus.MustNewConstMetric(c.build, prometheus.GaugeValue, 1, b.Version, b.Revision, b.GoVersion)
	states := map[dataplane.EndpointState]int{}
	for _, e := range s.Status.Endpoints {
		states[e.State]++
	}
	for _, state := range []dataplane.EndpointState{
		dataplane.EndpointPending, dataplane.EndpointUp, dataplane.EndpointDown, dataplane.EndpointFailed,
	} {
		out <- prometheus.MustNewConstMetric(c.endpoints, prometheus.GaugeValue, float64(states[state]), state.String())
	}
	buckets := map[float64]uint64{}
	total := uint64(0)
	for i, n := range s.Driver.Durations.Counts {
		total += n
		if i < len(s.Driver.Durations.Bounds) {
			buckets[s.Driver.Durations.Bounds[i].Seconds()] = total // cumulative
		}
	}
	out <- prometheus.MustNewConstHistogram(c.durations, total, s.Driver.Durations.Sum.Seconds(), buckets)
}
