// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/projectcalico/calico/felix/labelindex"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	calinet "github.com/projectcalico/calico/libcalico-go/lib/net"
	"github.com/projectcalico/calico/libcalico-go/lib/selector"
)

func benchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := selector.Parse(`! (a == "b"&&! c != "d") || !(a == "b" && !c != "d")`); err != nil {
			b.Fatal(err)
		}
	}
}

// index is the index of sets of Felix's graph, and the number of its reports: additions and
// removals of members.
type index struct {
	*labelindex.SelectorAndNamedPortIndex

	reports, selectors int
}

func newIndex() *index {
	x := &index{SelectorAndNamedPortIndex: labelindex.NewSelectorAndNamedPortIndex()}
	x.OnMemberAdded = func(string, labelindex.IPSetMember) { x.reports++ }
	x.OnMemberRemoved = x.OnMemberAdded
	return x
}

// add adds a set.
func (x *index) add(id string, sel selector.Selector) {
	x.UpdateIPSet(id, sel, labelindex.ProtocolNone, "")
	x.selectors++
}

func parse(t testing.TB, text string) selector.Selector {
	t.Helper()
	sel, err := selector.Parse(text)
	require.NoError(t, err)
	return sel
}

func setSelectors(t testing.TB, n int) []selector.Selector {
	sels := make([]selector.Selector, n)
	for i := range sels {
		sels[i] = parse(t, fmt.Sprintf(`alpha == "beta" && has(ipset-%d)`, i))
	}
	return sels
}

// item returns an update of item number i, which has one address and the given parent.
func item(i int, labels map[string]string, parent string) api.Update {
	return update(model.WorkloadEndpointKey{
		Hostname: "host", OrchestratorID: "k8s", WorkloadID: fmt.Sprintf("wep-%06d", i), EndpointID: "eth0",
	}, &model.WorkloadEndpoint{
		Labels: labels, IPv4Nets: []calinet.IPNet{prefix(10, i+1, 32)}, ProfileIDs: []string{parent},
	})
}

// items returns n updates of items with the same labels, each with a parent of its own.
func items(n int, labels map[string]string) []api.Update {
	updates := make([]api.Update, n)
	for i := range updates {
		updates[i] = item(i, labels, "namespace-"+strconv.Itoa(i))
	}
	return updates
}

func (x *index) apply(updates []api.Update) {
	for _, u := range updates {
		x.OnUpdate(u)
	}
}

// Adds an item that matches one of the selectors.
func benchmarkAddItem(b *testing.B) {
	const pool = 100_000
	updates := items(pool, map[string]string{"alpha": "beta", "ipset-1": "true"})
	for _, n := range []int{10, 100, 1_000, 10_000} {
		b.Run("sels="+short(n), func(b *testing.B) {
			sels := setSelectors(b, n)
			x, i := indexOfSets(sels), 0
			b.ReportAllocs()
			for b.Loop() {
				if i == pool {
					b.StopTimer()
					x, i = indexOfSets(sels), 0
					b.StartTimer()
				}
				x.OnUpdate(updates[i])
				i++
			}
			require.Equal(b, i, x.reports)
		})
	}
}

func indexOfSets(sels []selector.Selector) *index {
	x := newIndex()
	for i, sel := range sels {
		x.add("ipset-"+strconv.Itoa(i), sel)
	}
	return x
}

// Changes the labels of a parent. Each item has a parent of its own. 100 selectors mention a label
// of the parents.
func benchmarkUpdateParent(b *testing.B) {
	parents := parentUpdates(100_000)
	for _, n := range []int{100, 100_000} {
		b.Run("items="+short(n), func(b *testing.B) {
			updates := items(n, map[string]string{"alpha": "beta", "ipset-1": "true"})
			sels := parentSelectors(b)
			start := func() *index {
				x := newIndex()
				x.apply(updates)
				for i, sel := range sels {
					x.add("ipset-"+strconv.Itoa(i), sel)
				}
				return x
			}
			x, i := start(), 0
			b.ReportAllocs()
			for b.Loop() {
				if i == len(parents) {
					b.StopTimer()
					x, i = start(), 0
					b.StartTimer()
				}
				x.OnUpdate(parents[i])
				i++
			}
			require.Equal(b, min(i, len(sels)), x.reports)
		})
	}
}

func parentUpdates(n int) []api.Update {
	updates := make([]api.Update, n)
	for i := range updates {
		name := "namespace-" + strconv.Itoa(i)
		updates[i] = profileLabels(name, map[string]string{
			"something-shared": "foo", "projectcalico.org/name": name,
			"update-idx": fmt.Sprintf("host/k8s/wep-%06d/eth0", i),
		})
	}
	return updates
}

func parentSelectors(t testing.TB) []selector.Selector {
	sels := make([]selector.Selector, 100)
	for i := range sels {
		sels[i] = parse(t, fmt.Sprintf(`projectcalico.org/name == "namespace-%d"`, i))
	}
	return sels
}

// Changes a label of a parent of 2,500 items. Either no selector mentions the label, or its change
// stops the matches of the items with one selector and starts their matches with another.
func benchmarkRelabelParent(b *testing.B) {
	const n = 2_500
	for _, label := range []string{"ignored", "colour"} {
		b.Run("items=2500/label="+label, func(b *testing.B) {
			x, versions := relabelledParent(b, n, label)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				x.OnUpdate(versions[i%2])
				i++
			}
			if label == "colour" {
				require.Equal(b, n*(2*i-1), x.reports) // the first update only adds
			} else {
				require.Zero(b, x.reports)
			}
			b.ReportMetric(float64(x.reports)/float64(b.N), "reports/op")
		})
	}
}

// relabelledParent returns an index of n items with one parent, and two versions of the parent.
func relabelledParent(t testing.TB, n int, label string) (*index, []api.Update) {
	x := newIndex()
	for i := range n {
		x.OnUpdate(item(i, map[string]string{"alpha": "beta"}, "ns"))
	}
	x.add("red", parse(t, `alpha == "beta" && colour == "red"`))
	x.add("blue", parse(t, `alpha == "beta" && colour == "blue"`))
	return x, []api.Update{
		profileLabels("ns", map[string]string{label: "red"}), profileLabels("ns", map[string]string{label: "blue"}),
	}
}

// Adds ten selectors, one of which matches all items.
func benchmarkAddSelector(b *testing.B) {
	const n = 100_000
	b.Run("items=100k/names=sorted/shared=false", func(b *testing.B) {
		sels, x := setSelectors(b, 10), newIndex()
		x.apply(items(n, map[string]string{"alpha": "beta", "ipset-1": "true"}))
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			x.add(strconv.Itoa(i%10), sels[i%10])
			if i++; i%10 == 0 {
				b.StopTimer()
				for id := range sels {
					x.DeleteIPSet(strconv.Itoa(id))
				}
				b.StartTimer()
			}
		}
		require.Equal(b, (i+8)/10*n, x.reports) // a deletion reports nothing
		b.ReportMetric(float64(x.reports)/float64(b.N), "reports/op")
	})
}

// Changes one label of one of the 250,000 endpoints of W1. Either no selector mentions the label,
// or its new value changes the matches with two of 69 selectors.
func benchmarkUpdateItem(b *testing.B) {
	const n, updates = 250_000, 4096
	x := indexOfSnapshot(b, n)
	for _, label := range []string{"one-in-30", "one-in-40"} {
		b.Run("items=250k/label="+label, func(b *testing.B) {
			initial, steps := itemSteps(n, updates, label)
			x.apply(initial) // a run may follow another one
			i, before := 0, x.reports
			b.ReportAllocs()
			for b.Loop() {
				x.OnUpdate(steps[i%len(steps)])
				i++
			}
			b.ReportMetric(float64(x.reports-before)/float64(b.N), "reports/op")
		})
	}
}

// indexOfSnapshot returns an index with n endpoints of W1, their parents and 69 selectors.
func indexOfSnapshot(t testing.TB, n int) *index {
	x, m := newIndex(), markers()
	for i := range 100 {
		x.OnUpdate(profileLabels("namespace-"+strconv.Itoa(i), map[string]string{"profile": strconv.Itoa(i)}))
	}
	for i := range n {
		x.OnUpdate(item(i, snapshotLabels(m, i+1), "namespace-"+strconv.Itoa(i%100)))
	}
	for _, marker := range slices.Compact(slices.Sorted(slices.Values(m))) {
		x.add(marker, parse(t, "has("+marker+")"))
	}
	for i := range 40 {
		x.add(strconv.Itoa(i), parse(t, fmt.Sprintf(`one-in-40 == "value-%d"`, i)))
	}
	return x
}

// itemSteps returns updates of random items, twice for each: the label has first one value, then
// another. The updates in initial give the items the labels of W1.
func itemSteps(n, updates int, label string) (initial, steps []api.Update) {
	rng, m := rand.New(rand.NewPCG(1, 0)), markers()
	which := make([]int, updates)
	for i := range which {
		which[i] = rng.IntN(n)
	}
	for _, i := range which {
		initial = append(initial, item(i, snapshotLabels(m, i+1), "namespace-"+strconv.Itoa(i%100)))
	}
	for _, other := range []string{"one-in-10", "one-in-11"} {
		for _, i := range which {
			labels := snapshotLabels(m, i+1)
			labels[label] = labels[other] // value-0 to value-10
			steps = append(steps, item(i, labels, "namespace-"+strconv.Itoa(i%100)))
		}
	}
	return initial, steps
}

// TestIndex checks the reports of the benchmarks of the index, at small sizes.
func TestIndex(t *testing.T) {
	labels := map[string]string{"alpha": "beta", "ipset-1": "true"}
	sets := func() *index { return indexOfSets(setSelectors(t, 10)) }
	t.Run("an added item matches one of ten selectors", func(t *testing.T) {
		x := sets()
		x.apply(items(100, labels))
		require.Equal(t, 100, x.reports)
	})
	t.Run("an added selector matches all items, and the others none", func(t *testing.T) {
		x := newIndex()
		x.apply(items(100, labels))
		for i, sel := range setSelectors(t, 10) {
			x.add(strconv.Itoa(i), sel)
		}
		require.Equal(t, 100, x.reports)
	})
	t.Run("new labels of a parent match one of 100 selectors", func(t *testing.T) {
		x := newIndex()
		x.apply(items(200, labels))
		for i, sel := range parentSelectors(t) {
			x.add(strconv.Itoa(i), sel)
		}
		x.apply(parentUpdates(200))
		require.Equal(t, 100, x.reports)
	})
	t.Run("the items of a parent move between two sets", func(t *testing.T) {
		x, versions := relabelledParent(t, 10, "colour")
		x.apply(versions)
		require.Equal(t, 10+20, x.reports)
	})
	t.Run("a label that no selector mentions", func(t *testing.T) {
		x, versions := relabelledParent(t, 10, "ignored")
		x.apply(versions)
		require.Zero(t, x.reports)
	})
	t.Run("an item moves between two of 69 sets", func(t *testing.T) {
		x := indexOfSnapshot(t, 400)
		require.Equal(t, 69, x.selectors)
		initial, steps := itemSteps(400, 1, "one-in-40")
		x.OnUpdate(steps[0])
		before := x.reports
		x.OnUpdate(steps[1])
		require.Equal(t, before+2, x.reports)
		x.apply(initial)
		require.Equal(t, before+4, x.reports)
		_, steps = itemSteps(400, 1, "one-in-30")
		x.OnUpdate(steps[0])
		require.Equal(t, before+4, x.reports, "no selector mentions its label")
	})
}
