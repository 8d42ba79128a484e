// SPDX-License-Identifier: Apache-2.0

package labelindex_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/selector"
	"github.com/wayleave/wayleave/selector/labelindex"
)

// shape is the size of a random world: the maximum number of objects of each kind.
type shape struct {
	items, parents, selectors, names, values int
}

// world makes the same random changes to an index and the model.
type world struct {
	shape
	t      *testing.T
	rng    *rand.Rand
	index  *labelindex.Index[int, int]
	empty  int // size of the empty index
	events []event
	model  *model
	pool   []*selector.Selector
	// weights are the frequencies of each kind of change. They differ between worlds and change
	// over time: sometimes items are added before selectors, sometimes parents last, sometimes all
	// objects are removed.
	weights [6]int
}

func newWorld(t *testing.T, s shape, seed uint64) *world {
	w := &world{shape: s, t: t, rng: rand.New(rand.NewPCG(seed, 3)), model: newModel(s.items, s.selectors)}
	x, err := labelindex.New(labelindex.Config[int, int]{
		CompareItems:     cmp.Compare[int],
		CompareSelectors: cmp.Compare[int],
		Started:          func(sel, item int) { w.events = append(w.events, event{sel, item, true}) },
		Stopped:          func(sel, item int) { w.events = append(w.events, event{sel, item, false}) },
	})
	require.NoError(t, err)
	w.index, w.empty = x, x.Size()
	for range 200 {
		w.pool = append(w.pool, w.selector(3))
	}
	w.pool = append(w.pool, nil, selector.Has("not a name"), selector.In(w.name()), selector.NotIn(w.name()))
	return w
}

func (w *world) name() string { return "k" + strconv.Itoa(w.rng.IntN(w.names)) }

func (w *world) value() string { return "v" + strconv.Itoa(w.rng.IntN(w.values)) }

func (w *world) parent() string { return "p" + strconv.Itoa(w.rng.IntN(w.parents)) }

func (w *world) labels() labels {
	l := labels{}
	for range w.rng.IntN(w.names) {
		l[w.name()] = w.value()
	}
	return l
}

func (w *world) selector(depth int) *selector.Selector {
	kind := w.rng.IntN(16)
	if depth == 0 {
		kind = 5 + w.rng.IntN(11)
	}
	switch kind {
	case 0, 1:
		return selector.And(w.selector(depth-1), w.selector(depth-1))
	case 2, 3:
		return selector.Or(w.selector(depth-1), w.selector(depth-1))
	case 4:
		return selector.Not(w.selector(depth - 1))
	case 5, 6, 7:
		return selector.Equal(w.name(), w.value())
	case 8:
		return selector.NotEqual(w.name(), w.value())
	case 9, 10:
		return selector.In(w.name(), w.value(), w.value())
	case 11:
		return selector.NotIn(w.name(), w.value(), w.value())
	case 12:
		return selector.EndsWith(w.name(), w.value()[1:])
	case 13:
		return selector.All()
	}
	return selector.Has(w.name())
}

// changeWeights changes the weights.
func (w *world) changeWeights() {
	for i := range w.weights {
		w.weights[i] = w.rng.IntN(4) * w.rng.IntN(4)
	}
	w.weights[w.rng.IntN(3)]++ // so that not all are zero
}

func (w *world) kind() int {
	total := 0
	for _, n := range w.weights {
		total += n
	}
	at := w.rng.IntN(total)
	for kind, n := range w.weights {
		if at -= n; at < 0 {
			return kind
		}
	}
	return 0
}

// mutate makes one change. It returns the expected events.
func (w *world) mutate() []event {
	item, sel := w.rng.IntN(w.items), w.rng.IntN(w.selectors)
	switch w.kind() {
	case 0:
		it := &modelItem{labels: w.labels()}
		for range w.rng.IntN(4) {
			it.parents = append(it.parents, w.parent())
		}
		w.index.UpdateItem(item, it.labels, it.parents)
		return w.model.setItem(item, it)
	case 1:
		name, l := w.parent(), w.labels()
		w.index.UpdateParent(name, l)
		return w.model.setParent(name, l)
	case 2:
		s := w.pool[w.rng.IntN(len(w.pool))]
		w.index.UpdateSelector(sel, s)
		return w.model.setSelector(sel, s, true)
	case 3:
		w.index.DeleteItem(item)
		return w.model.setItem(item, nil)
	case 4:
		name := w.parent()
		w.index.DeleteParent(name)
		return w.model.setParent(name, nil)
	default:
		w.index.DeleteSelector(sel)
		return w.model.setSelector(sel, nil, false)
	}
}

// expect compares the calls of the callbacks and their order with the expected ones.
func (w *world) expect(want []event) {
	if !slices.Equal(want, w.events) {
		require.Equal(w.t, want, w.events)
	}
	w.events = w.events[:0]
}

func (w *world) requireQueries() {
	for sel := range w.selectors {
		require.Equal(w.t, w.model.itemsOf(sel), slices.Collect(w.index.Items(sel)))
	}
	for item := range w.items {
		require.Equal(w.t, w.model.selectorsOf(item), slices.Collect(w.index.Selectors(item)))
	}
}

// removeAll removes all objects, kinds in random order, and checks that the index is empty.
func (w *world) removeAll() {
	removals := []func(){
		func() {
			for _, id := range w.rng.Perm(w.items) {
				w.index.DeleteItem(id)
				w.expect(w.model.setItem(id, nil))
			}
		},
		func() {
			for i := range w.parents {
				name := "p" + strconv.Itoa(i)
				w.index.DeleteParent(name)
				w.expect(w.model.setParent(name, nil))
			}
		},
		func() {
			for _, id := range w.rng.Perm(w.selectors) {
				w.index.DeleteSelector(id)
				w.expect(w.model.setSelector(id, nil, false))
			}
		},
	}
	for _, i := range w.rng.Perm(len(removals)) {
		removals[i]()
	}
	require.Zero(w.t, w.model.count)
	require.Equal(w.t, w.empty, w.index.Size(), "the index is not empty")
}

// fill adds all items.
func (w *world) fill() {
	for id := range w.items {
		it := &modelItem{labels: w.labels(), parents: []string{w.parent()}}
		w.index.UpdateItem(id, it.labels, it.parents)
		w.expect(w.model.setItem(id, it))
	}
}

// run makes a number of random changes, and then removes all objects.
func (w *world) run(steps int) {
	for step := range steps {
		if step%500 == 0 {
			w.changeWeights()
		}
		w.expect(w.mutate())
		if step%250 == 0 {
			w.requireQueries()
			require.NoError(w.t, w.index.Check())
		}
	}
	w.removeAll()
}

// More than a million random changes: the events of each, their order and the final state agree
// with the model. In the small worlds, objects share labels most of the time. In the large one,
// sets and reports have all representations.
func TestRandomAgainstModel(t *testing.T) {
	for _, tc := range []struct {
		name string
		shape
		seeds, steps int
	}{
		{"tiny", shape{items: 8, parents: 3, selectors: 6, names: 3, values: 2}, 30, 15_000},
		{"small", shape{items: 25, parents: 6, selectors: 16, names: 6, values: 3}, 30, 15_000},
		{"medium", shape{items: 120, parents: 30, selectors: 40, names: 8, values: 12}, 10, 12_000},
		{"large", shape{items: 3_000, parents: 4, selectors: 8, names: 4, values: 3}, 2, 10_000},
	} {
		seeds := tc.seeds
		if testing.Short() {
			seeds, tc.steps = max(1, seeds/10), tc.steps/5
		}
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprintf("%s/seed=%d", tc.name, seed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, tc.shape, seed)
				if tc.items > 1_000 {
					w.fill()
				}
				w.run(tc.steps)
			})
		}
	}
}

// FuzzIndex runs a random world of any seed.
func FuzzIndex(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		newWorld(t, shape{items: 6, parents: 3, selectors: 4, names: 3, values: 2}, seed).run(500)
	})
}
