// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// snapshot is the workload W1. It has endpoints, of which 200 are local, and policies. Each
// endpoint has one of 29 marker labels. Each policy selects by one marker and allows ingress from
// five.
type snapshot struct{ remote, policies int }

func (w snapshot) String() string {
	return fmt.Sprintf("eps=%dk/pols=%dk", w.remote/1000, w.policies/1000)
}

// markers are the label names of W1: 31, of which 29 are distinct.
func markers() []string {
	slashed := []string{
		"calico/FizzBuzz", "calico/BoffBip", "calico/Bazzle", "calico/Razzle", "calico/DoopDeeDoo", "calico/SOME_LABEL",
		"calico/BORED_NOW",
	}
	m := append([]string{"FOO_BAR", "FOO_BAR", "BIFF_BOP"}, slashed...)
	m = append(m, "MyMarkerLabel", "xFOO_BAR", "xBIFF_BOP")
	for _, s := range slashed {
		m = append(m, "x"+s)
	}
	m = append(m, "yxMyMarkerLabel", "yxFOO_BAR", "yxBIFF_BOP")
	for _, s := range slashed {
		m = append(m, "yx"+s)
	}
	return append(m, "yxMyMarkerLabel")
}

func (w snapshot) policy(i int) *policy.Policy {
	m := markers()
	p := &policy.Policy{
		Name: "tag-pol-" + strconv.Itoa(i), Selector: "has(" + m[i%31] + ")",
		Types: []policy.Type{policy.Ingress, policy.Egress},
	}
	for j := range 5 {
		p.Ingress = append(p.Ingress, policy.Rule{
			Action: policy.Allow, Source: policy.EntityRule{Selector: "has(" + m[(i+j)%31] + ")"},
		})
	}
	return p
}

func (w snapshot) endpoint(s int) *policy.WorkloadEndpoint {
	labels := map[string]string{markers()[s%31]: "true"}
	for _, n := range []int{10, 11, 20, 30, 40} {
		labels["one-in-"+strconv.Itoa(n)] = "value-" + strconv.Itoa(s%n)
	}
	e := &policy.WorkloadEndpoint{
		Name: fmt.Sprintf("wep-%07d", s), Node: "remotehost", Interface: "way" + strconv.Itoa(s), Labels: labels,
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(s >> 16), byte(s >> 8), byte(s)})},
		Profiles:  []string{"namespace-" + strconv.Itoa(s%100)},
	}
	if s > w.remote {
		e.Node = "localhost"
	}
	return e
}

// load returns the graph of the workload and its first flush.
func (w snapshot) load(b testing.TB) (*calcgraph.Graph, dataplane.Batch) {
	b.Helper()
	graph, err := calcgraph.New(calcgraph.Config{Node: "localhost"})
	require.NoError(b, err)
	set := func(r policy.Resource) { graph.Update(policy.Update{Key: r.Key(), Resource: r}) }
	for i := range w.policies {
		set(w.policy(i))
	}
	for n := range 100 {
		set(&policy.Profile{Name: "namespace-" + strconv.Itoa(n), LabelsToApply: map[string]string{
			"namespace-label": "value-" + strconv.Itoa(n),
		}})
	}
	for s := 1; s <= w.remote+200; s++ {
		set(w.endpoint(s))
	}
	graph.InSync()
	return graph, graph.Flush()
}

// change is a repeatable update of W1.
type change struct {
	name string
	step func(i int) policy.Resource
}

func (w snapshot) changes() []change {
	return []change{
		{"remote label", func(i int) policy.Resource { // it moves between two sets
			e := w.endpoint(1 + i/2%w.remote)
			if i%2 == 0 {
				e.Labels = w.endpoint(2 + i/2%w.remote).Labels
			}
			return e
		}},
		{"policy edit", func(i int) policy.Resource {
			p := w.policy(i / 2 % w.policies)
			if i%2 == 0 {
				p.Ingress[2].Action = policy.Deny
			}
			return p
		}},
		{"local endpoint", func(i int) policy.Resource {
			e := w.endpoint(w.remote + 1 + i/2%200)
			if i%2 == 0 {
				e.Addresses = append(e.Addresses, netip.MustParseAddr("10.200.0.1"))
			}
			return e
		}},
	}
}

// BenchmarkRenderer measures only the renderer, and the check of its delta against the state: for
// the whole table, and for single changes.
func BenchmarkRenderer(b *testing.B) {
	w := snapshot{250_000, 10_000}
	graph, first := w.load(b)
	b.Run("snapshot/"+w.String(), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := render.New(render.Config{})
			require.NoError(b, err)
			r.Update(first)
			sink = r.Flush()
		}
		rules := 0
		for _, c := range sink.Chains {
			rules += len(c.Rules)
		}
		b.ReportMetric(float64(rules), "rules")
		b.ReportMetric(float64(len(sink.Sets)), "sets")
	})
	r, err := render.New(render.Config{})
	require.NoError(b, err)
	r.Update(first)
	r.Flush()
	for _, c := range w.changes() {
		b.Run(strings.ReplaceAll(c.name, " ", "-")+"/"+w.String(), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				resource := c.step(i)
				graph.Update(policy.Update{Key: resource.Key(), Resource: resource})
				r.Update(graph.Flush())
				sink = r.Flush()
				i++
			}
		})
	}
}

// BenchmarkRendererWideEdit measures only the renderer, for the edit that BenchmarkPolicyChanges
// programs: the ports of a policy that applies to half of the 200 local endpoints.
func BenchmarkRendererWideEdit(b *testing.B) {
	w := snapshot{100_000, 10_000}
	graph, first := w.load(b)
	r, err := render.New(render.Config{})
	require.NoError(b, err)
	r.Update(first)
	edit := func(version int) dataplane.Batch {
		resource := w.wide(version)
		graph.Update(policy.Update{Key: resource.Key(), Resource: resource})
		return graph.Flush()
	}
	r.Update(edit(0))
	r.Flush()
	var edits []dataplane.Batch
	for version := range 10_000 {
		edits = append(edits, edit(1+version))
	}
	b.Run(w.String(), func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			r.Update(edits[i%len(edits)])
			sink = r.Flush()
			i++
		}
		require.Len(b, sink.Elements, 1)
	})
}

var sink *ruleset.Delta

// BenchmarkDataplane measures a load from empty, and single changes from the update of the graph to
// the end of the transaction. For single changes, it reports the median too, which other work on
// the machine affects less than the average.
func BenchmarkDataplane(b *testing.B) {
	w := snapshot{250_000, 10_000}
	graph, first := w.load(b)
	b.Run("snapshot/"+w.String(), func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			ns := nstest.New(b)
			d, err := nft.New(nft.Config{NetNS: ns.FD()})
			require.NoError(b, err)
			b.StartTimer()
			require.NoError(b, d.Apply(b.Context(), first))
			b.StopTimer()
			require.NoError(b, d.Close())
			b.StartTimer()
		}
	})
	ns := nstest.New(b)
	d := open(b, ns, render.Config{})
	require.NoError(b, d.Apply(b.Context(), first))
	for _, c := range w.changes() {
		b.Run(strings.ReplaceAll(c.name, " ", "-")+"/"+w.String(), func(b *testing.B) {
			b.ReportAllocs()
			var took []time.Duration
			for b.Loop() {
				resource := c.step(len(took))
				start := time.Now()
				graph.Update(policy.Update{Key: resource.Key(), Resource: resource})
				require.NoError(b, d.Apply(b.Context(), graph.Flush()))
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "us/median")
		})
	}
}
