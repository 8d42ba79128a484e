// SPDX-License-Identifier: Apache-2.0

package prove_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/prove"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// workload is W1 of docs/benchmarks.md. It has endpoints, of which 200 are on the node, and
// policies. Each endpoint has one of 29 labels. Each policy selects by one label and allows ingress
// from five.
type workload struct{ remote, policies int }

func (w workload) world() verdict.World {
	world := verdict.World{}
	slashed := []string{"FizzBuzz", "BoffBip", "Bazzle", "Razzle", "DoopDeeDoo", "SOME_LABEL", "BORED_NOW"}
	var markers []string
	for _, prefix := range []string{"", "x", "yx"} {
		markers = append(markers, prefix+"FOO_BAR", prefix+"BIFF_BOP", prefix+"MyMarkerLabel")
		for _, s := range slashed {
			markers = append(markers, prefix+"calico/"+s)
		}
	}
	markers = markers[:29]
	for i := range w.policies {
		p := &policy.Policy{
			Name: "tag-pol-" + strconv.Itoa(i), Selector: "has(" + markers[i%29] + ")",
			Types: []policy.Type{policy.Ingress, policy.Egress},
		}
		for j := range 5 {
			p.Ingress = append(p.Ingress, policy.Rule{
				Action: policy.Allow, Source: policy.EntityRule{Selector: "has(" + markers[(i+j)%29] + ")"},
			})
		}
		world.Set(p)
	}
	for n := range 100 {
		world.Set(&policy.Profile{Name: "namespace-" + strconv.Itoa(n), LabelsToApply: map[string]string{
			"namespace-label": "value-" + strconv.Itoa(n),
		}})
	}
	for s := 1; s <= w.remote+200; s++ {
		labels := map[string]string{markers[s%29]: "true"}
		for _, n := range []int{10, 11, 20, 30, 40} {
			labels["one-in-"+strconv.Itoa(n)] = "value-" + strconv.Itoa(s%n)
		}
		e := &policy.WorkloadEndpoint{
			Name: fmt.Sprintf("wep-%07d", s), Node: "remotehost", Interface: "way" + strconv.Itoa(s), Labels: labels,
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(s >> 16), byte(s >> 8), byte(s)})},
			Profiles:  []string{"namespace-" + strconv.Itoa(s%100)},
		}
		if s > w.remote {
			e.Node = node
		}
		world.Set(e)
	}
	return world
}

// BenchmarkTable measures the proof of a table with 200 local endpoints. It measures the time, the
// packets, the evaluations, and the peak of the memory, without the world and the table.
func BenchmarkTable(b *testing.B) {
	for _, w := range []workload{{100_000, 10_000}, {250_000, 10_000}} {
		b.Run(fmt.Sprintf("eps=%dk/pols=%dk", w.remote/1000, w.policies/1000), func(b *testing.B) {
			world := w.world()
			table := rendered(b, render.Config{}, world)
			runtime.GC()
			var before, now runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				peak := uint64(0)
				start := time.Now()
				r, err := prove.Table(b.Context(), prove.Config{
					World: world, Node: node, Table: table, Progress: func(done, all int) error {
						if done%64 == 0 {
							runtime.ReadMemStats(&now)
							peak = max(peak, now.HeapAlloc-before.HeapAlloc)
						}
						return nil
					},
				})
				require.NoError(b, err)
				require.True(b, r.Agrees(), "%s", r)
				b.ReportMetric(time.Since(start).Seconds(), "s/proof")
				b.ReportMetric(float64(r.Packets), "packets")
				b.ReportMetric(float64(r.Evaluations), "evaluations")
				b.ReportMetric(float64(peak>>20), "MB/peak")
			}
		})
	}
}
