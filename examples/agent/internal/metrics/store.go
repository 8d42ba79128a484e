// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/wayleave/wayleave/datastore/etcd"
)

// storeMetric is a metric of the shared store that is a plain number.
type storeMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*Store) float64
}

// addStore adds the metrics of a store.
func (c *collector) addStore() {
	c.failures = describe("store_failures_total", "Failures of the shared store, by kind.", "kind")
	gauge := func(name, help string, read func(*Store) float64) {
		c.store = append(c.store, storeMetric{describe("store_"+name, help), prometheus.GaugeValue, read})
	}
	count := func(name, help string, read func(*Store) uint64) {
		c.store = append(c.store, storeMetric{
			describe("store_"+name, help), prometheus.CounterValue, func(s *Store) float64 { return float64(read(s)) },
		})
	}
	gauge("connected", "1 if the last request to the shared store succeeded.",
		func(s *Store) float64 { return truth(s.Connected) })
	gauge("objects", "Objects in the shared store.", func(s *Store) float64 { return float64(s.Objects) })
	gauge("unusable", "Objects in the shared store that cannot be read.",
		func(s *Store) float64 { return float64(s.Unusable) })
	gauge("updates_pending", "Objects of the shared store that wait for the graph.",
		func(s *Store) float64 { return float64(s.Pending) })
	gauge("behind_seconds", "Age of the oldest update that waits for the graph.",
		func(s *Store) float64 { return s.Behind.Seconds() })
	gauge("read_revision", "Revision up to which the shared store has been read.",
		func(s *Store) float64 { return float64(s.Read) })
	gauge("delivered_revision", "Revision up to which the graph has all changes.",
		func(s *Store) float64 { return float64(s.Delivered) })
	gauge("applied_revision", "Revision up to which all changes are in the kernel.",
		func(s *Store) float64 { return float64(s.Applied) })
	count("connections_total", "Connections that were made.", func(s *Store) uint64 { return s.Connections })
	count("lists_total", "Complete reads of the store, also failed ones.", func(s *Store) uint64 { return s.Lists })
	count("watches_total", "Watches that were begun.", func(s *Store) uint64 { return s.Watches })
	count("events_total", "Changes that watches reported.", func(s *Store) uint64 { return s.Events })
	count("resyncs_total", "Watches that could not be continued.", func(s *Store) uint64 { return s.Resyncs })
}

func (c *collector) describeStore(out chan<- *prometheus.Desc) {
	for _, m := range c.store {
		out <- m.desc
	}
	out <- c.failures
}

func (c *collector) collectStore(s *Store, out chan<- prometheus.Metric) {
	if s == nil {
		return
	}
	for _, m := range c.store {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.read(s))
	}
	for _, kind := range etcd.FailureKinds() {
		out <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(s.Failures[kind]),
			string(kind))
	}
}
