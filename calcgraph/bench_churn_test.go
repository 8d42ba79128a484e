// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/workload"
	"github.com/wayleave/wayleave/policy"
)

// churn is one change to a loaded W1, repeated.
type churn struct {
	// setup is applied before the first step, and restore after the last one.
	setup, restore []policy.Update
	// steps are the changes, applied in a cycle. Each has an effect, also the first one after the
	// last one.
	steps []policy.Update
	// undo is applied after each step and not measured. Without undo, the steps themselves return
	// to the initial state.
	undo []policy.Update
	// per is the number of steps of a flush; 0 means 1.
	per int
	// want has the number of events of the first step by kind, and of the added and removed
	// members.
	want map[string]int
}

// churns returns the changes by name. Changes of remote endpoints iterate over many of them, so
// that their data is not in the processor's cache.
func churns(w snapshot) map[string]churn {
	m := workload.Markers()
	seven := sevenOf(m, w)
	return map[string]churn{
		"flush with nothing to do":                       {},
		"remote endpoint, no set affected":               unaffectedEndpoints(w, 0),
		"remote endpoint, no set affected, 500 a flush":  unaffectedEndpoints(w, 500),
		"remote endpoint between two sets":               movingEndpoints(w, 0),
		"remote endpoint between two sets, 500 a flush":  movingEndpoints(w, 500),
		"local endpoint added":                           localAdded(w),
		"local endpoint, irrelevant label":               localRelabelled(w),
		"policy rule edited":                             ruleEdited(w),
		"policy added, 7 of 200 local":                   policyAdded("has("+seven+")", m, 7),
		"policy all() added, 200 local":                  policyAdded("all()", m, 200),
		"policy added with a new set, 1 in 40 endpoints": setAdded(w, seven),
		"namespace relabelled, no set affected":          namespaceRelabelled(w, seven, false),
		"namespace relabelled, its members move":         namespaceRelabelled(w, seven, true),
		"one CIDR of 10,000 in a network set":            cidrChanged(seven),
	}
}

// BenchmarkChurn measures single changes to a loaded W1, each with a flush. Besides the mean of all
// steps, it reports the minimum and the median, which depend less on other load of the machine.
func BenchmarkChurn(b *testing.B) {
	for _, w := range sizes([]snapshot{{25_000, 1_000}}, snapshot{250_000, 10_000}) {
		graph := newBenchGraph(b)
		for u := range w.updates() {
			graph.Update(u)
		}
		graph.InSync()
		require.Equal(b, w.want(), count(graph.Flush()))
		rows := churns(w)
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			b.Run(name+"/"+w.String(), func(b *testing.B) { benchmarkChurn(b, graph, rows[name]) })
		}
	}
}

func benchmarkChurn(b *testing.B, graph *calcgraph.Graph, c churn) {
	give := func(updates []policy.Update) {
		for _, u := range updates {
			graph.Update(u)
		}
		graph.Flush()
	}
	give(c.setup)
	took := make([]time.Duration, 0, 1<<20)
	i, per := 0, max(c.per, 1)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		for n := range min(per, len(c.steps)) {
			graph.Update(c.steps[(i*per+n)%len(c.steps)])
		}
		graph.Flush()
		if len(took) < cap(took) {
			took = append(took, time.Since(start)/time.Duration(per))
		}
		i++
		if c.undo != nil {
			b.StopTimer()
			give(c.undo)
			b.StartTimer()
		}
	}
	give(c.restore)
	slices.Sort(took)
	b.ReportMetric(float64(took[0]), "min-ns/step")
	b.ReportMetric(float64(took[len(took)/2]), "median-ns/step")
}

// TestChurn checks with small workloads that each change has the effect of its name, and that the
// initial state returns.
func TestChurn(t *testing.T) {
	w := snapshot{remote: 3100, policies: 310}
	p := newPipeline(t)
	play := func(updates []policy.Update) dataplane.Batch {
		for _, u := range updates {
			p.graph.Update(u)
		}
		batch := p.graph.Flush()
		require.NoError(t, p.mirror.Play(batch))
		return batch
	}
	p.graph.InSync()
	play(slices.Collect(w.updates()))
	before := p.mirror.State().Clone()
	for name, c := range churns(w) {
		play(c.setup)
		if len(c.steps) > 0 {
			require.Equal(t, c.want, kinds(play(c.steps[:1])), "%s: first step", name)
			if c.undo != nil {
				play(c.undo)
			}
			second := c.steps[1%len(c.steps)]
			require.Equal(t, c.want, kinds(play([]policy.Update{second})), "%s: second step", name)
			if c.undo != nil {
				play(c.undo)
			}
		}
		play(c.restore)
		require.True(t, before.Equal(p.mirror.State()), "%s", name)
	}
}

// TestChurnAllocations limits the allocations of a step and its undo. The limits are the numbers
// with the race detector. Unlike times, they do not depend on the machine. One more allocation per
// update is 250,000 more at a start.
func TestChurnAllocations(t *testing.T) {
	w := snapshot{remote: 3100, policies: 310}
	graph := newGraph(t)
	graph.InSync()
	apply := func(updates ...policy.Update) {
		for _, u := range updates {
			graph.Update(u)
		}
		graph.Flush()
	}
	apply(slices.Collect(w.updates())...)
	limits := map[string]float64{
		"flush with nothing to do":                       0,
		"remote endpoint, no set affected":               4,
		"remote endpoint between two sets":               9,
		"local endpoint added":                           54,
		"local endpoint, irrelevant label":               11,
		"policy rule edited":                             51,
		"policy added, 7 of 200 local":                   130,
		"policy all() added, 200 local":                  2010,
		"policy added with a new set, 1 in 40 endpoints": 235,
		"namespace relabelled, no set affected":          14,
		"namespace relabelled, its members move":         150,
		"one CIDR of 10,000 in a network set":            15,
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) { // sorted: a change affects the allocations of later ones
		c := churns(w)[name]
		apply(c.setup...)
		i := 0
		allocs := testing.AllocsPerRun(20, func() {
			if len(c.steps) > 0 {
				graph.Update(c.steps[i%len(c.steps)])
				i++
			}
			graph.Flush()
			if c.undo != nil {
				apply(c.undo...)
			}
		})
		require.LessOrEqual(t, allocs, limits[name], "%s", name)
		apply(c.restore...)
	}
}

// kinds counts the events of a batch by kind, and the added and removed members.
func kinds(batch dataplane.Batch) map[string]int {
	n := map[string]int{}
	for _, event := range batch.Events {
		n[fmt.Sprintf("%T", event)]++
		switch e := event.(type) {
		case *dataplane.IPSetUpdate:
			n["members"] += len(e.Members)
		case *dataplane.IPSetDelta:
			n["members"] += len(e.Added) + len(e.Removed)
		}
	}
	return n
}

const (
	endpointUpdates = "*dataplane.EndpointUpdate"
	policyUpdates   = "*dataplane.PolicyUpdate"
	routeUpdates    = "*dataplane.RouteUpdate"
	setUpdates      = "*dataplane.IPSetUpdate"
	setDeltas       = "*dataplane.IPSetDelta"
)

// sevenOf returns a marker that seven of the 200 local endpoints have.
func sevenOf(m []string, w snapshot) string {
	counts := map[string]int{}
	for s := w.remote + 1; s <= w.remote+localEndpoints; s++ {
		counts[m[s%31]]++
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] == 7 {
			return name
		}
	}
	return ""
}

// irrelevant gives an endpoint a label that no selector mentions.
func irrelevant(labels map[string]string, _ int) { labels["one-in-10"] = "value-irrelevant" }

// relabelled returns updates that change the labels of some thousands of remote endpoints one after
// the other, and then restore them.
func relabelled(w snapshot, change func(labels map[string]string, s int)) []policy.Update {
	m := workload.Markers()
	const prime = 7919 // so that neighbours are far apart
	n := min(w.remote/2, 4096)
	var there, back []policy.Update
	for i := range n {
		s := 1 + i*prime%w.remote
		e := w.shared().Endpoint(m, s)
		change(e.Labels, s)
		there = append(there, update(e))
		back = append(back, update(w.shared().Endpoint(m, s)))
	}
	return append(there, back...)
}

// unaffectedEndpoints gives remote endpoints a label that no selector mentions.
func unaffectedEndpoints(w snapshot, per int) churn {
	steps := relabelled(w, irrelevant)
	return churn{steps: steps, restore: steps[len(steps)/2:], per: per, want: map[string]int{}}
}

// movingEndpoints gives remote endpoints the marker of another set.
func movingEndpoints(w snapshot, per int) churn {
	m := workload.Markers()
	steps := relabelled(w, func(labels map[string]string, s int) {
		delete(labels, m[s%31])
		next := m[(s+1)%31]
		if next == m[s%31] {
			next = m[(s+2)%31]
		}
		labels[next] = "true"
	})
	return churn{
		steps: steps, restore: steps[len(steps)/2:], per: per, want: map[string]int{setDeltas: 2, "members": 2},
	}
}

func localAdded(w snapshot) churn {
	e := w.shared().Endpoint(workload.Markers(), w.remote+localEndpoints+1)
	return churn{
		steps: []policy.Update{update(e)},
		undo:  []policy.Update{{Key: e.Key()}},
		want:  map[string]int{endpointUpdates: 1, routeUpdates: 1, setDeltas: 1, "members": 1},
	}
}

func localRelabelled(w snapshot) churn {
	m := workload.Markers()
	var there, back []policy.Update
	for s := w.remote + 1; s <= w.remote+localEndpoints; s++ {
		e := w.shared().Endpoint(m, s)
		irrelevant(e.Labels, s)
		there = append(there, update(e))
		back = append(back, update(w.shared().Endpoint(m, s)))
	}
	return churn{steps: append(there, back...), restore: back, want: map[string]int{}}
}

func ruleEdited(w snapshot) churn {
	m := workload.Markers()
	var there, back []policy.Update
	for i := range min(w.policies, 1000) {
		p := workload.Policy(m, i)
		p.Ingress[2].Protocol = policy.ProtocolTCP
		p.Ingress[2].Destination.Ports = []policy.Port{policy.PortNumber(80)}
		there = append(there, update(p))
		back = append(back, update(workload.Policy(m, i)))
	}
	return churn{steps: append(there, back...), restore: back, want: map[string]int{policyUpdates: 1}}
}

// policyAdded adds a policy whose sets exist.
func policyAdded(selector string, m []string, endpoints int) churn {
	p := workload.Policy(m, 3)
	p.Name, p.Selector = "tag-pol-new", selector
	return churn{
		steps: []policy.Update{update(p)},
		undo:  []policy.Update{{Key: p.Key()}},
		want:  map[string]int{policyUpdates: 1, endpointUpdates: endpoints},
	}
}

// setAdded adds a policy that selects seven endpoints and needs a new set, each time another one.
func setAdded(w snapshot, seven string) churn {
	var steps []policy.Update
	for i := range 20 {
		p := workload.Policy(workload.Markers(), 3)
		p.Name, p.Selector = "tag-pol-new", "has("+seven+")"
		p.Ingress = p.Ingress[:1]
		p.Ingress[0].Source.Selector = fmt.Sprintf("one-in-40 == %q", fmt.Sprintf("value-%d", 1+i))
		steps = append(steps, update(p))
	}
	members := 0
	for s := 1; s <= w.remote+localEndpoints; s++ {
		if s%40 == 1 {
			members++
		}
	}
	return churn{
		steps: steps,
		undo:  []policy.Update{{Key: steps[0].Key}},
		want:  map[string]int{policyUpdates: 1, endpointUpdates: 7, setUpdates: 1, "members": members},
	}
}

// namespaceRelabelled changes a label that a hundredth of the endpoints inherit. They move between
// two sets, if these exist.
func namespaceRelabelled(w snapshot, seven string, interested bool) churn {
	const n = 42
	a, b := workload.Profile(n, "a"), workload.Profile(n, "b")
	c := churn{
		steps:   []policy.Update{update(b), update(a)},
		restore: []policy.Update{update(a)},
		want:    map[string]int{},
	}
	if !interested {
		return c
	}
	p := &policy.Policy{Name: "namespaces", Selector: "has(" + seven + ")"}
	for _, profile := range []*policy.Profile{a, b} {
		p.Ingress = append(p.Ingress, policy.Rule{Action: policy.Allow, Source: policy.EntityRule{
			Selector: fmt.Sprintf("namespace-label == %q", profile.LabelsToApply["namespace-label"]),
		}})
	}
	c.setup = []policy.Update{update(p)}
	c.restore = append(c.restore, policy.Update{Key: p.Key()})
	members := (w.remote + localEndpoints) / 100
	c.want = map[string]int{setDeltas: 2, "members": 2 * members}
	return c
}

// cidrChanged changes one prefix of a network set, each time another one.
func cidrChanged(seven string) churn {
	set := func(changed int) *policy.NetworkSet {
		s := &policy.NetworkSet{
			Name: "many", Labels: map[string]string{"many": "true"}, Nets: make(policy.Nets, 10_000),
		}
		for i := range s.Nets {
			s.Nets[i] = netip.PrefixFrom(workload.IPv4(20, i<<8), 24)
		}
		if changed >= 0 {
			s.Nets[changed] = netip.PrefixFrom(workload.IPv4(30, changed<<8), 24)
		}
		return s
	}
	p := &policy.Policy{Name: "many", Selector: "has(" + seven + ")", Ingress: []policy.Rule{
		{Action: policy.Allow, Source: policy.EntityRule{Selector: "has(many)"}},
	}}
	c := churn{
		setup:   []policy.Update{update(set(-1)), update(p)},
		restore: []policy.Update{{Key: p.Key()}, {Key: set(-1).Key()}},
		want:    map[string]int{setDeltas: 1, "members": 2},
	}
	for i := range 50 {
		c.steps = append(c.steps, update(set(i*199)), update(set(-1)))
	}
	return c
}
