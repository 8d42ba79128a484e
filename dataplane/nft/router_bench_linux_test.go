// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// fullSize adds the sizes and rounds of the figures in docs/benchmarks.md.
var fullSize = flag.Bool("full", false, "run the benchmarks of policy at full size")

// comparison has entries that are measured in turn, so that other work on the machine affects all
// of them alike.
type comparison struct{ entries []entry }

// entry is one measurement: a row and a column of the table.
type entry struct {
	row, column, unit string
	measure           func(b *testing.B) float64
	results           []float64
}

// add adds an entry, which is measured once a round.
func (c *comparison) add(row, column, unit string, measure func(b *testing.B) float64) {
	c.entries = append(c.entries, entry{row: row, column: column, unit: unit, measure: measure})
}

// kind returns the common name of rows that differ only in size.
func (e entry) kind() string {
	kind, _, _ := strings.Cut(e.row, "/")
	return kind
}

// run measures all entries for a number of rounds, after a warm-up round, and reports the minimum
// and the median of each.
func (c *comparison) run(b *testing.B, rounds int) {
	b.Helper()
	for round := range rounds + 1 {
		for i := range c.entries {
			e := &c.entries[i]
			if got := e.measure(b); round > 0 {
				e.results = append(e.results, got)
			}
		}
	}
	first := map[string]int{} // the first entry of each kind of rows: a kind is reported together
	for i, e := range c.entries {
		if _, ok := first[e.kind()]; !ok {
			first[e.kind()] = i
		}
	}
	slices.SortStableFunc(c.entries, func(a, b entry) int { return first[a.kind()] - first[b.kind()] })
	for _, e := range c.entries {
		slices.Sort(e.results)
		b.Run(e.row+"/form="+e.column, func(b *testing.B) {
			b.ReportMetric(e.results[0], "min-"+e.unit)
			b.ReportMetric(e.results[rounds/2], "median-"+e.unit)
			b.ReportMetric(0, "ns/op") // it would be the time of reporting
		})
	}
}

// sized returns full if the benchmark runs at full size, otherwise everyday.
func sized[T any](full, everyday T) T {
	if *fullSize {
		return full
	}
	return everyday
}

// BenchmarkPolicyPackets measures the cost of packets in a router. It measures three kinds of
// packets:
//
//   - the first packet of a flow that the last policy allows
//   - a packet of an established flow
//   - the packets of a TCP connection that is opened and closed
//
// Router, policy and sender share one processor.
func BenchmarkPolicyPackets(b *testing.B) {
	pin(b)
	c := &comparison{}
	for _, base := range baselines() {
		r := newRig(b, "eth1", "way1")
		load(b, r.node, base.table)
		c.packets(r, "", base.name)
		c.connections(r, "", base.name)
	}
	for _, n := range sized([]int{1, 10, 100, 1000, 10_000}, []int{1, 10, 100, 1000}) {
		for _, f := range forms() {
			r, _, _ := judged{policies: n}.program(b, f)
			name := fmt.Sprintf("/policies=%d", n)
			c.packets(r, name, f.name)
			if n == 1000 {
				c.connections(r, name, f.name)
				r, _, _ := judged{policies: n, egress: true}.program(b, f)
				c.packets(r, "-out"+name, f.name)
				for _, kind := range []hostKind{forwarded, untracked, preDNAT} {
					r, _, _ := judged{policies: n, host: kind}.program(b, f)
					c.packets(r, "-"+string(kind)+name, f.name)
				}
				r, _, _ = judged{policies: n, local: true}.program(b, f)
				c.packets(r, "-local"+name, f.name)
			}
		}
	}
	c.run(b, sized(25, 3))
}

// packets measures the first packets of flows and the packets of an established one. It sends
// frames, which are injected into the client's interface and discarded at the server's, so that
// almost only the router costs time. It also sends datagrams between sockets.
func (c *comparison) packets(r *rig, name, column string) {
	const most = 20_000
	fresh, once := rigFlows(most), slices.Repeat(rigFlows(1), most)
	c.flows(r, name, column, r.frames(r.client, fresh), r.frames(r.client, once), once[0].dst)
	c.flows(r, "-sockets"+name, column, r.datagrams(fresh), r.datagrams(once), rigServer())
}

func (c *comparison) flows(r *rig, name, column string, fresh, once *burst, dst netip.Addr) {
	count := 0
	c.add("new"+name, column, "ns", func(b *testing.B) float64 {
		defer r.resetConntrack(b) // all namespaces share the limit of connections, and later tests need some
		if count == 0 {           // the number of connections for which a round has time
			const trial = 32
			each := r.volley(b, fresh, trial) / trial
			count = int(min(time.Duration(len(fresh.list)), max(trial, 50*time.Millisecond/each)))
			r.resetConntrack(b)
		}
		return float64(r.volley(b, fresh, count)) / float64(count)
	})
	c.add("established"+name, column, "ns", func(b *testing.B) float64 {
		defer r.resetConntrack(b)
		r.establish(b, once, dst)
		return float64(r.volley(b, once, len(once.list))) / float64(len(once.list))
	})
}

// connections measures opening and closing a connection.
func (c *comparison) connections(r *rig, name, column string) {
	count := 0
	c.add("connect"+name, column, "ns", func(b *testing.B) float64 {
		defer r.resetConntrack(b)
		if count == 0 {
			const trial = 32
			count = int(min(5000, max(trial, 150*time.Millisecond*trial/r.connects(b, trial))))
		}
		return float64(r.connects(b, count)) / float64(count)
	})
}
