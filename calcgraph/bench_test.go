// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/policy"
)

// markers are the label names of the snapshot workload: 31 of which 29 are distinct.
func markers() []string {
	slashed := []string{
		"calico/FizzBuzz", "calico/BoffBip", "calico/Bazzle", "calico/Razzle", "calico/DoopDeeDoo",
		"calico/SOME_LABEL", "calico/BORED_NOW",
	}
	m := append([]string{"FOO_BAR", "FOO_BAR", "BIFF_BOP"}, slashed...)
	m = append(m, "MyMarkerLabel")
	for _, prefix := range []string{"x", "yx"} {
		if prefix == "yx" {
			m = append(m, "yxMyMarkerLabel")
		}
		m = append(m, prefix+"FOO_BAR", prefix+"BIFF_BOP")
		for _, s := range slashed {
			m = append(m, prefix+s)
		}
	}
	return append(m, "yxMyMarkerLabel")
}

// snapshot makes the updates of a cluster: remote endpoints with six labels each, 200 local ones, and policies of five
// rules, each of which selects its peers by one label.
func snapshot(remote, policies int) []policy.Update {
	m := markers()
	updates := make([]policy.Update, 0, remote+policies+300)
	add := func(r policy.Resource) { updates = append(updates, policy.Update{Key: r.Key(), Resource: r}) }
	for i := range policies {
		p := &policy.Policy{
			Name: fmt.Sprintf("tag-pol-%d", i), Selector: "has(" + m[i%31] + ")",
			Types: []policy.Type{policy.Ingress, policy.Egress},
		}
		for j := range 5 {
			p.Ingress = append(p.Ingress, policy.Rule{
				Action: policy.Allow, Source: policy.EntityRule{Selector: "has(" + m[(i+j)%31] + ")"},
			})
		}
		add(p)
	}
	for i := range 100 {
		add(&policy.Profile{Name: fmt.Sprintf("namespace-%d", i), LabelsToApply: map[string]string{"ns": fmt.Sprint(i)}})
	}
	addr := netip.MustParseAddr("10.0.0.1")
	for s := 1; s <= remote+200; s++ {
		w := snapshotEndpoint(m, s, addr)
		if s <= remote {
			w.Node = "remotehost"
		}
		add(w)
		addr = addr.Next()
	}
	return updates
}

func snapshotEndpoint(m []string, s int, addr netip.Addr) *policy.WorkloadEndpoint {
	labels := map[string]string{strings.Clone(m[s%31]): "true"}
	for _, n := range []int{10, 11, 20, 30, 40} {
		labels[fmt.Sprintf("one-in-%d", n)] = fmt.Sprintf("value-%d", s%n)
	}
	return &policy.WorkloadEndpoint{
		Name: fmt.Sprintf("w%d", s), Node: node, Interface: fmt.Sprintf("wl%d", s), Labels: labels,
		Addresses: []netip.Addr{addr}, Profiles: []string{fmt.Sprintf("namespace-%d", s%100)},
	}
}

// TestSnapshotEndState checks what the workload of the benchmarks comes to, on a small scale.
func TestSnapshotEndState(t *testing.T) {
	p := newPipeline(t)
	p.update(snapshot(3100, 310)...)
	p.graph.InSync()
	p.flush()
	state := p.mirror.State()
	require.Len(t, state.Sets, 29)
	require.Len(t, state.Policies, 310)
	require.Len(t, state.Endpoints, 200)
	members := 0
	for _, set := range state.Sets {
		members += len(set.Members)
	}
	require.Equal(t, 3300, members)
}

func BenchmarkSnapshot(b *testing.B) {
	for _, size := range []struct{ eps, pols int }{{2_500, 100}, {25_000, 1_000}} {
		b.Run(fmt.Sprintf("eps=%d/pols=%d", size.eps, size.pols), func(b *testing.B) {
			updates := snapshot(size.eps, size.pols)
			b.ReportAllocs()
			for b.Loop() {
				loaded(b, updates)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(updates)), "ns/update")
		})
	}
}

func BenchmarkSteadyState(b *testing.B) {
	updates := snapshot(25_000, 1_000)
	graph := loaded(b, updates)
	m := markers()
	b.Run("nothing to do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			graph.Flush()
		}
	})
	b.Run("remote endpoint moves between two sets", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i++
			w := snapshotEndpoint(m, 1+i%7, netip.MustParseAddr("10.0.0.1"))
			w.Name, w.Node = "w1", "remotehost"
			graph.Update(policy.Update{Key: w.Key(), Resource: w})
			graph.Flush()
		}
	})
}

func loaded(b *testing.B, updates []policy.Update) *calcgraph.Graph {
	b.Helper()
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	require.NoError(b, err)
	for _, u := range updates {
		graph.Update(u)
	}
	graph.InSync()
	graph.Flush()
	return graph
}
