// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/projectcalico/api/pkg/lib/numorstring"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	calinet "github.com/projectcalico/calico/libcalico-go/lib/net"
)

// churn is one change to a loaded W1, repeated.
type churn struct {
	// setup is applied before the first step, and restore after the last one.
	setup, restore []api.Update
	// steps are the changes, applied in a cycle. Each has an effect, also the first one after the
	// last one. A step is one update, or the two of a profile.
	steps [][]api.Update
	// undo is applied after each step and not measured. Without undo, the steps themselves return
	// to the initial state.
	undo []api.Update
	// per is the number of steps of a flush; 0 means 1.
	per int
	// want has the counts of the messages of the first step.
	want tally
}

// churns returns the changes by name. Changes of remote endpoints iterate over many of them, so
// that their data is not in the processor's cache.
func churns(w snapshot) map[string]churn {
	m := markers()
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
		"policy added, 7 of 200 local":                   policyAdded("has("+seven+")", 7),
		"policy all() added, 200 local":                  policyAdded("all()", 200),
		"policy added with a new set, 1 in 40 endpoints": setAdded(w, seven),
		"namespace relabelled, no set affected":          namespaceRelabelled(w, seven, false),
		"namespace relabelled, its members move":         namespaceRelabelled(w, seven, true),
		"one CIDR of 10,000 in a network set":            cidrChanged(seven),
	}
}

// benchmarkChurns measures single changes to a loaded W1, each with a flush. Besides the mean of
// all steps, it reports the minimum and the median, which depend less on other load of the machine.
func benchmarkChurns(b *testing.B, w snapshot) {
	g := newGraph()
	for u := range w.updates() {
		g.apply([]api.Update{u})
	}
	g.inSync()
	require.Equal(b, w.want(), g.flushes())
	rows := churns(w)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.Run(name+"/"+w.String(), func(b *testing.B) { benchmarkChurn(b, g, rows[name]) })
	}
}

func benchmarkChurn(b *testing.B, g *graph, c churn) {
	give := func(updates []api.Update) {
		g.apply(updates)
		g.flush()
	}
	give(c.setup)
	took := make([]time.Duration, 0, 1<<20)
	i, per, want := 0, max(c.per, 1), c.wantFlush()
	b.ReportAllocs()
	for b.Loop() {
		g.flushed = tally{}
		start := time.Now()
		for n := range min(per, len(c.steps)) {
			g.apply(c.steps[(i*per+n)%len(c.steps)])
		}
		g.flush()
		if len(took) < cap(took) {
			took = append(took, time.Since(start)/time.Duration(per))
		}
		if got := g.flushed.messages(); got != want {
			b.Fatalf("step %d: messages %+v, not %+v", i, got, want)
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

// wantFlush has the counts of the messages of one flush.
func (c churn) wantFlush() tally {
	want := c.want
	if c.per > 0 && want.deltas > 0 {
		// The endpoints of a flush have all markers.
		want.deltas, want.added, want.removed = 29, want.added*c.per, want.removed*c.per
	}
	return want
}

// messages returns the counts without those of references, which differ from step to step.
func (t tally) messages() tally {
	t.ingress, t.egress = 0, 0
	return t
}

// TestChurn checks with small workloads that each change has the effect of its name, and that the
// initial state returns.
func TestChurn(t *testing.T) {
	w := snapshot{remote: 3100, policies: 310}
	g, s := newMirrored(t)
	values := map[model.Key]any{}
	play := func(updates []api.Update) (changed bool, got tally) {
		for _, u := range updates {
			changed = changed || !reflect.DeepEqual(values[u.Key], u.Value)
			values[u.Key] = u.Value
		}
		g.apply(updates)
		return changed, g.flushes().messages()
	}
	g.inSync()
	play(slices.Collect(w.updates()))
	before, initial := s.clone(), maps.Clone(values)
	for name, c := range churns(w) {
		play(c.setup)
		for i := range c.steps {
			changed, got := play(c.steps[i])
			require.True(t, changed, "%s: step %d changes nothing", name, i)
			require.Equal(t, c.want, got, "%s: step %d", name, i)
			play(c.undo)
		}
		if len(c.steps) > 0 { // a run can end after any step
			play(c.steps[0])
			play(c.undo)
		}
		play(c.restore)
		require.True(t, before.equal(s), "%s", name)
		for key, value := range values {
			require.True(t, reflect.DeepEqual(initial[key], value), "%s: %s", name, key)
		}
	}
}

// TestChurnFlushes checks the changes of which a flush has 500.
func TestChurnFlushes(t *testing.T) {
	w := snapshot{remote: 3100, policies: 310}
	g, s := newMirrored(t)
	g.apply(slices.Collect(w.updates()))
	g.inSync()
	g.flush()
	before := s.clone()
	for name, c := range churns(w) {
		if c.per == 0 {
			continue
		}
		for i := range 2 * len(c.steps) / c.per {
			for n := range c.per {
				g.apply(c.steps[(i*c.per+n)%len(c.steps)])
			}
			require.Equal(t, c.wantFlush(), g.flushes(), "%s: flush %d", name, i)
		}
		g.apply(slices.Concat(c.steps...))
		g.flush()
		require.True(t, before.equal(s), "%s", name)
	}
}

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

// relabelled returns steps that change the labels of some thousands of remote endpoints one after
// the other, and then restore them.
func relabelled(w snapshot, change func(labels map[string]string, s int)) [][]api.Update {
	m := markers()
	const prime = 7919 // so that neighbours are far apart
	n := min(w.remote/2, 4096)
	var there, back [][]api.Update
	for i := range n {
		s := 1 + i*prime%w.remote
		labels := snapshotLabels(m, s)
		change(labels, s)
		there = append(there, []api.Update{w.endpointWith(s, labels)})
		back = append(back, []api.Update{w.endpoint(m, s)})
	}
	return append(there, back...)
}

// unaffectedEndpoints gives remote endpoints a label that no selector mentions.
func unaffectedEndpoints(w snapshot, per int) churn {
	steps := relabelled(w, irrelevant)
	return churn{steps: steps, restore: slices.Concat(steps[len(steps)/2:]...), per: per}
}

// movingEndpoints gives remote endpoints the marker of another set.
func movingEndpoints(w snapshot, per int) churn {
	m := markers()
	steps := relabelled(w, func(labels map[string]string, s int) {
		delete(labels, m[s%31])
		next := m[(s+1)%31]
		if next == m[s%31] {
			next = m[(s+2)%31]
		}
		labels[next] = "true"
	})
	return churn{
		steps: steps, restore: slices.Concat(steps[len(steps)/2:]...), per: per,
		want: tally{deltas: 2, added: 1, removed: 1},
	}
}

func localAdded(w snapshot) churn {
	e := w.endpoint(markers(), w.remote+localEndpoints+1)
	return churn{
		steps: [][]api.Update{{e}},
		undo:  []api.Update{update(e.Key, nil)},
		want:  tally{endpoints: 1, deltas: 1, added: 1},
	}
}

// localRelabelled gives local endpoints a label that no selector mentions. Felix sends the endpoint
// again.
func localRelabelled(w snapshot) churn {
	m := markers()
	var there, back [][]api.Update
	for s := w.remote + 1; s <= w.remote+localEndpoints; s++ {
		labels := snapshotLabels(m, s)
		irrelevant(labels, s)
		there = append(there, []api.Update{w.endpointWith(s, labels)})
		back = append(back, []api.Update{w.endpoint(m, s)})
	}
	return churn{steps: append(there, back...), restore: slices.Concat(back...), want: tally{endpoints: 1}}
}

func ruleEdited(w snapshot) churn {
	m := markers()
	tcp := numorstring.ProtocolFromString("TCP")
	var there, back [][]api.Update
	for i := range min(w.policies, 1000) {
		original, edited := tagPolicy(m, i), tagRules(m, i)
		edited.InboundRules[2].Protocol = &tcp
		edited.InboundRules[2].DstPorts = []numorstring.Port{numorstring.SinglePort(80)}
		there = append(there, []api.Update{update(original.Key, edited)})
		back = append(back, []api.Update{original})
	}
	return churn{steps: append(there, back...), restore: slices.Concat(back...), want: tally{policies: 1}}
}

// policyAdded adds a policy whose sets exist.
func policyAdded(selector string, endpoints int) churn {
	key, p := model.PolicyKey{Name: "tag-pol-new"}, tagRules(markers(), 3)
	p.Selector = selector
	return churn{
		steps: [][]api.Update{{update(key, p)}},
		undo:  []api.Update{update(key, nil)},
		want:  tally{policies: 1, endpoints: endpoints},
	}
}

// setAdded adds a policy that selects seven endpoints and needs a new set, each time another one.
func setAdded(w snapshot, seven string) churn {
	key := model.PolicyKey{Name: "tag-pol-new"}
	var steps [][]api.Update
	for i := range 20 {
		steps = append(steps, []api.Update{update(key, &model.Policy{
			Selector: "has(" + seven + ")", Types: []string{"ingress", "egress"},
			InboundRules: []model.Rule{allowFrom(fmt.Sprintf("one-in-40 == %q", "value-"+strconv.Itoa(1+i)))},
		})})
	}
	members := 0
	for s := 1; s <= w.remote+localEndpoints; s++ {
		if s%40 == 1 {
			members++
		}
	}
	return churn{
		steps: steps,
		undo:  []api.Update{update(key, nil)},
		want:  tally{policies: 1, endpoints: 7, sets: 1, members: members},
	}
}

// namespaceRelabelled changes a label that a hundredth of the endpoints inherit. They move between
// two sets, if these exist.
func namespaceRelabelled(w snapshot, seven string, interested bool) churn {
	const n = 42
	a, b := profile(n, "a"), profile(n, "b")
	c := churn{steps: [][]api.Update{b, a}, restore: a}
	if !interested {
		return c
	}
	p := &model.Policy{Selector: "has(" + seven + ")", Types: []string{"ingress"}}
	for _, value := range []string{"a", "b"} {
		p.InboundRules = append(p.InboundRules,
			allowFrom(fmt.Sprintf("namespace-label == %q", namespaceLabel(n, value))))
	}
	key := model.PolicyKey{Name: "namespaces"}
	c.setup = []api.Update{update(key, p)}
	c.restore = append(c.restore, update(key, nil))
	members := (w.remote + localEndpoints) / 100
	c.want = tally{deltas: 2, added: members, removed: members}
	return c
}

// cidrChanged changes one prefix of a network set, each time another one.
func cidrChanged(seven string) churn {
	key, policyKey := model.NetworkSetKey{Name: "many"}, model.PolicyKey{Name: "many"}
	set := func(changed int) api.Update {
		s := &model.NetworkSet{Labels: map[string]string{"many": "true"}, Nets: make([]calinet.IPNet, 10_000)}
		for i := range s.Nets {
			s.Nets[i] = prefix(20, i<<8, 24)
		}
		if changed >= 0 {
			s.Nets[changed] = prefix(30, changed<<8, 24)
		}
		return update(key, s)
	}
	p := &model.Policy{
		Selector: "has(" + seven + ")", Types: []string{"ingress"},
		InboundRules: []model.Rule{allowFrom("has(many)")},
	}
	c := churn{
		setup:   []api.Update{set(-1), update(policyKey, p)},
		restore: []api.Update{update(policyKey, nil), update(key, nil)},
		want:    tally{deltas: 1, added: 1, removed: 1},
	}
	for i := range 50 {
		c.steps = append(c.steps, []api.Update{set(i * 199)}, []api.Update{set(-1)})
	}
	return c
}
