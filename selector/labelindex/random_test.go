// SPDX-License-Identifier: Apache-2.0

package labelindex_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/selector"
)

// naive is the index that nobody can get wrong: it recomputes everything.
type naive struct {
	items     map[string]naiveItem
	parents   map[string]labels
	selectors map[string]*selector.Selector
}

type naiveItem struct {
	labels  labels
	parents []string
}

// matches returns "selector item" for every match.
func (n naive) matches() map[string]bool {
	all := map[string]bool{}
	for id, it := range n.items {
		effective := selector.Map{}
		for _, name := range slices.Backward(it.parents) {
			maps.Copy(effective, n.parents[name])
		}
		maps.Copy(effective, it.labels)
		for name, sel := range n.selectors {
			if sel.Match(effective) {
				all[name+" "+id] = true
			}
		}
	}
	return all
}

// world drives an index and the naive one with the same random changes.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	index *index
	rec   *recorder
	naive naive
	live  map[string]bool // matches according to the callbacks
}

func newWorld(t *testing.T, seed uint64) *world {
	x, rec := newIndex(t)
	return &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), index: x, rec: rec, live: map[string]bool{},
		naive: naive{map[string]naiveItem{}, map[string]labels{}, map[string]*selector.Selector{}},
	}
}

func (w *world) name(prefix string, n int) string { return prefix + strconv.Itoa(w.rng.IntN(n)) }

func (w *world) labels() labels {
	l := labels{}
	for range w.rng.IntN(4) {
		l[w.name("k", 4)] = w.name("v", 3)
	}
	return l
}

func (w *world) selector(depth int) *selector.Selector {
	key, value := w.name("k", 4), w.name("v", 3)
	switch kind := w.rng.IntN(10); {
	case depth > 0 && kind < 2:
		return selector.And(w.selector(depth-1), w.selector(depth-1))
	case depth > 0 && kind < 4:
		return selector.Or(w.selector(depth-1), w.selector(depth-1))
	case depth > 0 && kind < 5:
		return selector.Not(w.selector(depth - 1))
	case kind < 7:
		return selector.Equal(key, value)
	case kind < 8:
		return selector.NotEqual(key, value)
	case kind < 9:
		return selector.Has(key)
	}
	return selector.All()
}

func (w *world) mutate() {
	switch w.rng.IntN(9) {
	case 0, 1, 2:
		id, it := w.name("i", 12), naiveItem{labels: w.labels()}
		for range w.rng.IntN(4) {
			it.parents = append(it.parents, w.name("p", 5))
		}
		w.naive.items[id] = it
		w.index.UpdateItem(id, it.labels, it.parents)
	case 3, 4:
		name, l := w.name("p", 5), w.labels()
		w.naive.parents[name] = l
		w.index.UpdateParent(name, l)
	case 5:
		name, sel := w.name("s", 8), w.selector(2)
		w.naive.selectors[name] = sel
		w.index.UpdateSelector(name, sel)
	case 6:
		name := w.name("i", 12)
		delete(w.naive.items, name)
		w.index.DeleteItem(name)
	case 7:
		name := w.name("p", 5)
		delete(w.naive.parents, name)
		w.index.DeleteParent(name)
	case 8:
		name := w.name("s", 8)
		delete(w.naive.selectors, name)
		w.index.DeleteSelector(name)
	}
}

// absorb takes what the callbacks said in one call: each change must be one, and in order.
func (w *world) absorb() {
	events := w.rec.take()
	pairs := make([]string, len(events))
	for i, event := range events {
		pairs[i] = event[1:]
		started := event[0] == '+'
		require.Equal(w.t, !started, w.live[pairs[i]], "%s said twice", event)
		if started {
			w.live[pairs[i]] = true
		} else {
			delete(w.live, pairs[i])
		}
	}
	require.True(w.t, slices.IsSorted(pairs), "%v", events)
}

// Tens of thousands of random changes: after each, callbacks and queries agree with the naive index.
func TestRandomAgainstNaive(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed)
		for step := range 1500 {
			w.mutate()
			w.absorb()
			want := w.naive.matches()
			if !maps.Equal(want, w.live) {
				require.Equal(t, want, w.live, "seed %d, step %d", seed, step)
			}
			if step%50 == 0 {
				w.requireQueries()
			}
		}
		w.removeAll()
		require.Empty(t, w.live, "seed %d", seed)
		require.Zero(t, w.index.Size(), "seed %d: something is left behind", seed)
	}
}

func (w *world) requireQueries() {
	fromItems, fromSelectors := map[string]bool{}, map[string]bool{}
	for sel := range w.naive.selectors {
		items := slices.Collect(w.index.Items(sel))
		require.True(w.t, slices.IsSorted(items))
		for _, it := range items {
			fromItems[sel+" "+it] = true
		}
	}
	for it := range w.naive.items {
		selectors := slices.Collect(w.index.Selectors(it))
		require.True(w.t, slices.IsSorted(selectors))
		for _, sel := range selectors {
			fromSelectors[sel+" "+it] = true
		}
	}
	require.Equal(w.t, w.live, fromItems)
	require.Equal(w.t, w.live, fromSelectors)
}

// removeAll deletes everything, the kinds in random order.
func (w *world) removeAll() {
	removals := []func(){
		func() {
			for id := range w.naive.items {
				w.index.DeleteItem(id)
			}
		},
		func() {
			for name := range w.naive.parents {
				w.index.DeleteParent(name)
			}
		},
		func() {
			for name := range w.naive.selectors {
				w.index.DeleteSelector(name)
			}
		},
	}
	for _, i := range w.rng.Perm(len(removals)) {
		removals[i]()
	}
	for _, event := range w.rec.take() { // of many calls: each in order, all together not
		require.Equal(w.t, event[0] == '-', w.live[event[1:]], "%s said twice", event)
		if event[0] == '+' { // a parent's removal can start a match, as of !has(a)
			w.live[event[1:]] = true
		} else {
			delete(w.live, event[1:])
		}
	}
}
