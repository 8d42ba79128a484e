// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// fullSize adds the sizes and rounds that docs/benchmarks.md has figures of; scripts/bench-policy sets it.
var fullSize = flag.Bool("full", false, "run the benchmarks of policy at full size")

// contest is a number of things that are measured in turn, so that whatever else the machine does meets all of them alike.
type contest struct {
	names   []string
	measure []func(b *testing.B) time.Duration
}

// add adds a thing to measure once a round, under its name in the table and a column.
func (c *contest) add(name, column string, measure func(b *testing.B) time.Duration) {
	c.names = append(c.names, name+"/form="+column)
	c.measure = append(c.measure, measure)
}

// run measures all for a number of rounds, after one that does not count, and reports the least and the median of each.
func (c *contest) run(b *testing.B, rounds int) {
	b.Helper()
	took := make([][]time.Duration, len(c.names))
	for round := range rounds + 1 {
		for i, measure := range c.measure {
			runtime.GC()
			if t := measure(b); round > 0 {
				took[i] = append(took[i], t)
			}
		}
	}
	for i, name := range c.names {
		slices.Sort(took[i])
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(float64(took[i][0].Nanoseconds()), "min-ns")
			b.ReportMetric(float64(took[i][rounds/2].Nanoseconds()), "median-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// rounds is how often a contest measures each.
func rounds(full int) int {
	if *fullSize {
		return full
	}
	return 3
}

// BenchmarkPolicyPackets measures what packets cost in a router: the first of a flow that the last policy allows, one of an established flow, and
// connections of TCP that are opened and closed. Router, policy and sender share one processor.
func BenchmarkPolicyPackets(b *testing.B) {
	pin(b)
	c := &contest{}
	for _, base := range baselines() {
		r := newRig(b, "eth1", "way1")
		load(b, r.node, base.table)
		c.packets(b, r, "", base.name)
		c.connections(r, "", base.name)
	}
	sizes := []int{1, 10, 100, 1000}
	if *fullSize {
		sizes = append(sizes, 10_000)
	}
	for _, n := range sizes {
		for _, f := range forms() {
			r, _, _ := judged{policies: n}.program(b, f)
			name := fmt.Sprintf("/policies=%d", n)
			c.packets(b, r, name, f.name)
			if n == 1000 {
				c.connections(r, name, f.name)
				r, _, _ := judged{policies: n, egress: true}.program(b, f)
				c.packets(b, r, "-out"+name, f.name)
			}
		}
	}
	c.run(b, rounds(9))
}

// packets measures the first packets of flows and those of an established one.
func (c *contest) packets(b *testing.B, r *rig, name, column string) {
	const most = 20_000
	all := newBurst(r.client, rigFlows(most))
	once := r.repeated(most)
	fresh := 0
	c.add("new"+name, column, func(b *testing.B) time.Duration {
		r.forget(b)
		if fresh == 0 { // how many a round has time for
			const trial = 32
			each := r.volley(b, all, trial) / trial
			fresh = int(min(most, max(trial, 50*time.Millisecond/each)))
			r.forget(b)
		}
		return r.volley(b, all, fresh) / time.Duration(fresh)
	})
	c.add("established"+name, column, func(b *testing.B) time.Duration {
		r.establish(b, once)
		return r.volley(b, once, most) / most
	})
}

// connections measures opening and closing a connection.
func (c *contest) connections(r *rig, name, column string) {
	count := 0
	c.add("connect"+name, column, func(b *testing.B) time.Duration {
		r.forget(b)
		if count == 0 {
			const trial = 32
			count = int(min(5000, max(trial, 150*time.Millisecond*trial/r.connects(b, trial))))
		}
		return r.connects(b, count) / time.Duration(count)
	})
}
