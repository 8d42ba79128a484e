// SPDX-License-Identifier: Apache-2.0

package labelindex_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/wayleave/wayleave/internal/workload"
	"github.com/wayleave/wayleave/selector"
)

// scale writes 100000 as 100k.
func scale(n int) string {
	if n >= 1000 && n%1000 == 0 {
		return strconv.Itoa(n/1000) + "k"
	}
	return strconv.Itoa(n)
}

func setSelectors(b *testing.B, n int) []*selector.Selector {
	sels := make([]*selector.Selector, n)
	for i := range sels {
		sels[i] = parse(b, fmt.Sprintf(`alpha == "beta" && has(ipset-%d)`, i))
	}
	return sels
}

// Adds an item that matches one of the selectors.
func BenchmarkAddItem(b *testing.B) {
	const pool = 100_000
	names, parents := pods(pool), namespaces(pool)
	own := labels{"alpha": "beta", "ipset-1": "true"}
	for _, n := range []int{10, 100, 1_000, 10_000} {
		b.Run("sels="+scale(n), func(b *testing.B) {
			sels := setSelectors(b, n)
			start := func() *index {
				x, _ := newCounting(b)
				for i, sel := range sels {
					x.UpdateSelector("ipset-"+strconv.Itoa(i), sel)
				}
				return x
			}
			x, i := start(), 0
			b.ReportAllocs()
			for b.Loop() {
				if i == pool {
					b.StopTimer()
					x, i = start(), 0
					b.StartTimer()
				}
				x.UpdateItem(names[i], own, parents[i])
				i++
			}
		})
	}
}

// Changes the labels of a parent. Each item has a parent of its own. 100 selectors mention a label
// of the parents.
func BenchmarkUpdateParent(b *testing.B) {
	const pool = 100_000
	names, parents := pods(pool), namespaces(pool)
	for _, n := range []int{100, pool} {
		b.Run("items="+scale(n), func(b *testing.B) {
			start := func() *index {
				x, _ := newCounting(b)
				for i := range n {
					x.UpdateItem(names[i], labels{"alpha": "beta", "ipset-1": "true"}, parents[i])
				}
				for i := range 100 {
					x.UpdateSelector("ipset-"+strconv.Itoa(i),
						parse(b, fmt.Sprintf(`projectcalico.org/name == "namespace-%d"`, i)))
				}
				return x
			}
			x, i := start(), 0
			update := labels{"something-shared": "foo"}
			b.ReportAllocs()
			for b.Loop() {
				if i == pool {
					b.StopTimer()
					x, i = start(), 0
					b.StartTimer()
				}
				update["projectcalico.org/name"], update["update-idx"] = parents[i][0], names[i]
				x.UpdateParent(parents[i][0], update)
				i++
			}
		})
	}
}

// Changes a label of a parent of 2,500 items. Either no selector mentions the label, or its change
// stops the matches of the items with one selector and starts their matches with another.
func BenchmarkRelabelParent(b *testing.B) {
	names, parents := pods(2_500), []string{"ns"}
	values := []string{"red", "blue"}
	for _, label := range []string{"ignored", "colour"} {
		b.Run("items=2500/label="+label, func(b *testing.B) {
			x, reports := newCounting(b)
			for _, name := range names {
				x.UpdateItem(name, labels{"alpha": "beta"}, parents)
			}
			x.UpdateSelector("red", parse(b, `alpha == "beta" && colour == "red"`))
			x.UpdateSelector("blue", parse(b, `alpha == "beta" && colour == "blue"`))
			update, i := labels{}, 0
			b.ReportAllocs()
			for b.Loop() {
				update[label] = values[i%2]
				x.UpdateParent("ns", update)
				i++
			}
			b.ReportMetric(float64(*reports)/float64(b.N), "reports/op")
		})
	}
}

// Adds ten selectors, one of which matches all items. Cold: there is no equal selector. Shared:
// there is an equal selector under another id.
func BenchmarkAddSelector(b *testing.B) {
	const n = 100_000
	sels, ids := setSelectors(b, 10), pods(10)
	for _, order := range []string{"sorted", "shuffled"} {
		names, parents := pods(n), namespaces(n)
		if order == "shuffled" {
			rand.New(rand.NewPCG(1, 0)).Shuffle(n, func(i, j int) { names[i], names[j] = names[j], names[i] })
		}
		x, reports := newCounting(b)
		for i, name := range names {
			x.UpdateItem(name, labels{"alpha": "beta", "ipset-1": "true"}, parents[i])
		}
		clear := func() {
			for _, id := range ids {
				x.DeleteSelector(id)
			}
		}
		for _, shared := range []bool{false, true} {
			b.Run(fmt.Sprintf("items=100k/names=%s/shared=%t", order, shared), func(b *testing.B) {
				for i := 0; shared && i < 10; i++ {
					x.UpdateSelector("first-"+strconv.Itoa(i), sels[i])
				}
				i, counted := 0, 0
				b.ReportAllocs()
				for b.Loop() {
					before := *reports
					x.UpdateSelector(ids[i%10], sels[i%10])
					counted += *reports - before
					if i++; i%10 == 0 {
						b.StopTimer()
						clear()
						b.StartTimer()
					}
				}
				b.ReportMetric(float64(counted)/float64(b.N), "reports/op")
				clear()
			})
		}
	}
}

// Adds the endpoints of W1, with and without selectors.
func BenchmarkLoad(b *testing.B) {
	const n = 250_000
	names, parents, m := pods(n), namespaces(100), workload.Markers()
	own := make([]labels, n)
	for i := range own {
		own[i] = labels{}
		snapshotLabels(own[i], m, i+1)
	}
	for _, sels := range []int{0, 31} {
		b.Run(fmt.Sprintf("items=250k/sels=%d", sels), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x, _ := newCounting(b)
				for _, m := range m[:sels] {
					x.UpdateSelector(m, selector.Has(m))
				}
				for i := range names {
					x.UpdateItem(names[i], own[i], parents[i%100])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/item")
		})
	}
}

// Changes one label of one of the 250,000 endpoints of W1. Either no selector mentions the label,
// or its new value changes the matches with two of 69 selectors.
func BenchmarkUpdateItem(b *testing.B) {
	const n, updates = 250_000, 4096
	names, parents, m := pods(n), namespaces(100), workload.Markers()
	x, reports := newCounting(b)
	loadSnapshot(x, names)
	for _, marker := range m {
		x.UpdateSelector(marker, selector.Has(marker))
	}
	for i := range 40 {
		x.UpdateSelector(strconv.Itoa(i), selector.Equal("one-in-40", "value-"+strconv.Itoa(i)))
	}
	for _, label := range []string{"one-in-30", "one-in-40"} {
		b.Run("items=250k/label="+label, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 0))
			which, own := make([]int, updates), make([]labels, updates)
			for i := range updates {
				which[i], own[i] = rng.IntN(n), labels{}
				snapshotLabels(own[i], m, which[i]+1)
			}
			for u := range own { // a run may follow another one
				x.UpdateItem(names[which[u]], own[u], parents[which[u]%100])
			}
			i, before := 0, *reports
			b.ReportAllocs()
			for b.Loop() {
				u := i % updates
				own[u][label] = own[u]["one-in-"+strconv.Itoa(10+i/updates%2)] // value-0 to value-10
				x.UpdateItem(names[which[u]], own[u], parents[which[u]%100])
				i++
			}
			b.ReportMetric(float64(*reports-before)/float64(b.N), "reports/op")
		})
	}
}

// Adds and removes a label of an item that one selector mentions. There are n other selectors:
// loose ones that match the item, or ones filed under a label of the item that do not.
func BenchmarkToggleLabel(b *testing.B) {
	for _, form := range []struct{ name, text string }{
		{"loose", `x-%d != "b"`},
		{"hot", `alpha == "beta" && !has(y) && x-%d != "b"`},
		{"common", `alpha == "beta" && has(x-%d)`},
	} {
		for _, n := range []int{0, 1_000, 10_000} {
			b.Run(fmt.Sprintf("sels=%s/others=%s", scale(n), form.name), func(b *testing.B) {
				x, _ := newCounting(b)
				for i := range n {
					x.UpdateSelector("other-"+strconv.Itoa(i), parse(b, fmt.Sprintf(form.text, i)))
				}
				x.UpdateSelector("one", parse(b, `has(z)`))
				versions := []labels{{"alpha": "beta", "x-1": "a", "z": ""}, {"alpha": "beta", "x-1": "a"}}
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					x.UpdateItem("i", versions[i%2], nil)
					i++
				}
			})
		}
	}
}

// Adds and removes a label that 40 selectors mention, one of which matches the item. There are n
// other selectors as above.
func BenchmarkToggleSharedLabel(b *testing.B) {
	for _, n := range []int{0, 1_000, 10_000} {
		b.Run(fmt.Sprintf("mentions=40/others=%s", scale(n)), func(b *testing.B) {
			x, _ := newCounting(b)
			for i := range n {
				x.UpdateSelector("other-"+strconv.Itoa(i),
					parse(b, fmt.Sprintf(`alpha == "beta" && !has(y) && x-%d != "b"`, i)))
			}
			for i := range 40 {
				x.UpdateSelector(strconv.Itoa(i), selector.Equal("z", strconv.Itoa(i)))
			}
			versions := []labels{{"alpha": "beta", "z": "7"}, {"alpha": "beta"}}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				x.UpdateItem("i", versions[i%2], nil)
				i++
			}
		})
	}
}

// Changes a label of a parent of 100 items that one selector mentions. n loose selectors match all
// items.
func BenchmarkRelabelAmongLoose(b *testing.B) {
	for _, n := range []int{0, 1_000, 10_000} {
		b.Run("items=100/sels="+scale(n), func(b *testing.B) {
			x, _ := newCounting(b)
			for _, name := range pods(100) {
				x.UpdateItem(name, labels{"alpha": "beta"}, []string{"ns"})
			}
			for i := range n {
				x.UpdateSelector("loose-"+strconv.Itoa(i), parse(b, fmt.Sprintf(`x-%d != "b"`, i)))
			}
			x.UpdateSelector("red", parse(b, `colour == "red"`))
			versions := []labels{{"colour": "red"}, {"colour": "blue"}}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				x.UpdateParent("ns", versions[i%2])
				i++
			}
		})
	}
}

// Adds and removes a loose selector that matches all of 20,000 items. 3,000 others match them, too.
func BenchmarkLooseSelector(b *testing.B) {
	x, _ := newCounting(b)
	for _, name := range pods(20_000) {
		x.UpdateItem(name, labels{"alpha": "beta"}, nil)
	}
	for i := range 3_000 {
		x.UpdateSelector("loose-"+strconv.Itoa(i), parse(b, fmt.Sprintf(`x-%d != "b"`, i)))
	}
	sel := parse(b, `y != "b"`)
	b.Run("items=20k/sels=3k", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x.UpdateSelector("one", sel)
			x.DeleteSelector("one")
		}
	})
}

// Adds and removes items with one or the other of two terms. 100 selectors with 1,500 values need
// both terms, so that the rarer one changes.
func BenchmarkRefiling(b *testing.B) {
	x, _ := newCounting(b)
	values := make([]string, 1500)
	for i := range values {
		values[i] = strconv.Itoa(i)
	}
	for i := range 100 {
		x.UpdateSelector(strconv.Itoa(i), selector.And(selector.In("a", values...), selector.Equal("b", "y"),
			selector.NotEqual("q"+strconv.Itoa(i), ""), selector.Has("c")))
	}
	names, versions := pods(400), []labels{{"a": "7"}, {"b": "y"}}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		n := len(names)
		if round := i / n; round%2 == 0 {
			x.UpdateItem(names[i%n], versions[round/2%2], nil)
		} else {
			x.DeleteItem(names[i%n])
		}
		i++
	}
	b.ReportMetric(float64(x.Stats().Refilings)/float64(b.N), "refilings/op")
}
