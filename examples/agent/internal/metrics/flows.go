// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wayleave/wayleave/dataplane/nft/flows"
	"github.com/wayleave/wayleave/policy"
)

// Flows has the counters of flows.
type Flows struct {
	// Totals by decision. flows.Config.MaxTotals limits their number.
	Totals map[flows.Decision]flows.Counts
	Stats  flows.Stats
	// MissedVerdicts is how many verdicts were lost because buffers of the kernel or the agent were
	// full.
	MissedVerdicts uint64
}

// flowDescs has the descriptions of the metrics of flows.
type flowDescs struct {
	connections, packets, bytes       *prometheus.Desc
	flows, evicted, uncounted, misses *prometheus.Desc
}

func newFlowDescs() flowDescs {
	by := func(name, help string) *prometheus.Desc {
		return describe(name, help, "policy", "direction", "verdict", "reason")
	}
	return flowDescs{
		connections: by("flow_connections_total", "Connections that policy allowed."),
		packets: by("flow_packets_total",
			"Packets in both directions; if the verdict is deny, dropped packets."),
		bytes: by("flow_bytes_total",
			"Bytes in both directions; if the verdict is deny, those of dropped packets."),
		flows:   describe("flows", "Flows that the agent keeps."),
		evicted: describe("flows_evicted_total", "Flows that were removed to keep newer ones."),
		uncounted: describe("flow_connections_uncounted_total",
			"Verdicts about connections whose packets are not counted."),
		misses: describe("flow_verdicts_missed_total", "Verdicts that are not counted, because a buffer was full."),
	}
}

func (d flowDescs) describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		d.connections, d.packets, d.bytes, d.flows, d.evicted, d.uncounted, d.misses,
	} {
		out <- desc
	}
}

// flowLabels are the labels of a decision. All rules of a policy share them.
type flowLabels struct{ policy, direction, verdict, reason string }

func labelsOf(d flows.Decision) flowLabels {
	l := flowLabels{direction: strings.ToLower(string(d.Direction)), verdict: "deny", reason: d.Reason}
	if d.Policy != (policy.Key{}) {
		l.policy = d.Policy.String()
	}
	if d.Allowed {
		l.verdict = "allow"
	}
	return l
}

func (d flowDescs) collect(f *Flows, out chan<- prometheus.Metric) {
	if f == nil {
		return
	}
	type sums struct{ connections, packets, bytes float64 }
	all := map[flowLabels]sums{}
	for decision, c := range f.Totals {
		l := labelsOf(decision)
		s := all[l]
		s.connections += float64(c.Connections)
		s.packets += float64(c.Packets + c.ReplyPackets)
		s.bytes += float64(c.Bytes + c.ReplyBytes)
		all[l] = s
	}
	for l, s := range all {
		count := func(desc *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, l.policy, l.direction, l.verdict,
				l.reason)
		}
		count(d.connections, s.connections)
		count(d.packets, s.packets)
		count(d.bytes, s.bytes)
	}
	out <- prometheus.MustNewConstMetric(d.flows, prometheus.GaugeValue, float64(f.Stats.Flows))
	for desc, value := range map[*prometheus.Desc]uint64{
		d.evicted: f.Stats.Evicted, d.uncounted: f.Stats.Uncounted, d.misses: f.MissedVerdicts,
	} {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value))
	}
}
