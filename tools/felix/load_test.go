// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"flag"
	"fmt"
	"iter"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
)

// fullSize adds the benchmarks at the size of the figures in docs/benchmarks.md. Without it, they
// run at a tenth of the size.
var fullSize = flag.Bool("full", false, "run the benchmarks at full size too")

// sizes returns the workloads of usual runs, and those of full size if the flag is set.
func sizes[W any](everyday []W, full ...W) []W {
	if *fullSize {
		return append(everyday, full...)
	}
	return everyday
}

// BenchmarkFelix has all benchmarks, as sub-benchmarks with the names of ours.
func BenchmarkFelix(b *testing.B) {
	b.Run("Parse", benchmarkParse)
	b.Run("AddItem", benchmarkAddItem)
	b.Run("UpdateParent", benchmarkUpdateParent)
	b.Run("RelabelParent", benchmarkRelabelParent)
	b.Run("AddSelector", benchmarkAddSelector)
	b.Run("UpdateItem", benchmarkUpdateItem)
	w1 := sizes([]snapshot{{25_000, 1_000}}, snapshot{250_000, 10_000})
	benchmarkLoads(b, "W1", w1)
	b.Run("W1DeleteLocal", func(b *testing.B) {
		for _, w := range w1 {
			b.Run(w.String(), func(b *testing.B) { benchmarkDeleteLocal(b, w) })
		}
	})
	benchmarkLoads(b, "W2", sizes([]networkSets{{1_000, 100}}, networkSets{10_000, 1_000}))
	benchmarkLoads(b, "W3", sizes([]networkSets{{10_000, 1_000}}, networkSets{10_000, 10_000}))
	benchmarkLoads(b, "W4", sizes([]isolated{{1_000}, {10_000}}, isolated{100_000}))
	b.Run("HeapEndpoints", benchmarkHeapEndpoints)
	b.Run("Heap", benchmarkHeap)
	b.Run("Churn", func(b *testing.B) {
		for _, w := range w1 {
			benchmarkChurns(b, w)
		}
	})
}

func benchmarkLoads[W load](b *testing.B, name string, loads []W) {
	b.Run(name, func(b *testing.B) {
		for _, w := range loads {
			b.Run(w.String(), func(b *testing.B) { benchmarkLoad(b, w, nil) })
		}
	})
}

// benchmarkLoad measures the time from an empty graph to the first flush, and then afterwards. The
// updates are made before.
func benchmarkLoad(b *testing.B, w load, afterwards func(*graph)) {
	updates := slices.Collect(w.updates())
	want := w.want()
	runtime.GC()
	b.ReportAllocs()
	for b.Loop() {
		g := newGraph()
		g.apply(updates)
		g.inSync()
		g.flush()
		b.StopTimer()
		require.Equal(b, want, g.flushed)
		b.StartTimer()
		if afterwards != nil {
			afterwards(g)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(updates)), "ns/update")
}

// benchmarkDeleteLocal loads W1, then deletes the local endpoints, so that all messages are
// reverted.
func benchmarkDeleteLocal(b *testing.B, w snapshot) {
	deletes := w.deleteLocal()
	benchmarkLoad(b, w, func(g *graph) {
		g.flushed = tally{}
		g.apply(deletes)
		g.flush()
		b.StopTimer()
		require.Equal(b, w.wantDeleted(), g.flushed)
		b.StartTimer()
	})
}

// wantDeleted has the counts of the messages after the deletion of all local endpoints.
func (w snapshot) wantDeleted() tally {
	want := w.want()
	return tally{
		removedSets: want.sets, removedPolicies: want.policies,
		removedProfiles: want.profiles, removedEndpoints: want.endpoints,
	}
}

// benchmarkHeap measures the memory of a graph if the caller keeps no updates. The time is that of
// the graph only, without making the updates.
func benchmarkHeap(b *testing.B) {
	everyday := []load{snapshot{25_000, 1_000}, networkSets{1_000, 1_000}, isolated{10_000}}
	full := []load{
		snapshot{250_000, 10_000}, networkSets{10_000, 1_000}, networkSets{10_000, 10_000}, isolated{100_000},
	}
	names := map[string]string{
		"felix_test.snapshot": "W1", "felix_test.networkSets": "W3", "felix_test.isolated": "W4",
	}
	for _, w := range sizes(everyday, full...) {
		b.Run(names[fmt.Sprintf("%T", w)]+"/"+w.String(), func(b *testing.B) {
			b.ReportAllocs()
			var kept uint64
			for b.Loop() {
				kept = heapKept(b, w)
			}
			b.ReportMetric(float64(kept)/1e6, "heap-MB")
			if _, ok := w.(networkSets); ok {
				b.ReportMetric(float64(kept)/float64(w.want().members), "heap-B/member")
			}
		})
	}
}

// benchmarkHeapEndpoints measures the memory of a remote endpoint of W1 without policies.
func benchmarkHeapEndpoints(b *testing.B) {
	for _, n := range sizes([]int{25_000}, 250_000) {
		b.Run("eps="+short(n), func(b *testing.B) {
			b.ReportAllocs()
			w := snapshot{remote: n}
			var kept uint64
			for b.Loop() {
				b.StopTimer()
				g := newGraph()
				feed(b, g, slices.Values(profiles()))
				g.inSync()
				g.flush()
				g.flushed = tally{}
				before := heap()
				feed(b, g, func(yield func(api.Update) bool) { w.endpoints(1, n, yield) })
				b.StartTimer()
				g.flush()
				b.StopTimer()
				kept = heap() - before
				runtime.KeepAlive(g)
				require.Equal(b, tally{}, g.flushed)
				b.StartTimer()
			}
			b.ReportMetric(float64(kept)/float64(n), "heap-B/endpoint")
		})
	}
}

// heapKept loads a workload and drops each update. It returns the heap memory of the graph. The
// timer must be running, and measures only the graph.
func heapKept(b *testing.B, w load) uint64 {
	b.StopTimer()
	before := heap()
	g := newGraph()
	feed(b, g, w.updates())
	b.StartTimer()
	g.inSync()
	g.flush()
	b.StopTimer()
	require.Equal(b, w.want(), g.flushed)
	kept := heap() - before
	runtime.KeepAlive(g)
	b.StartTimer()
	return kept
}

// feed applies updates to a graph in portions. The timer is stopped while a portion is made.
// Portions are dropped afterwards.
func feed(b *testing.B, g *graph, updates iter.Seq[api.Update]) {
	portion := make([]api.Update, 0, 10_000)
	give := func() {
		b.StartTimer()
		g.apply(portion)
		b.StopTimer()
		clear(portion)
		portion = portion[:0]
	}
	for u := range updates {
		portion = append(portion, u)
		if len(portion) == cap(portion) {
			give()
		}
	}
	give()
}

// heap returns the bytes in use on the heap.
func heap() uint64 {
	// The second collection frees memory that finalizers and cleanups of the first one have
	// released.
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestWorkloads checks the counts and the end state of each workload at a small scale. The
// benchmarks check the counts at theirs.
func TestWorkloads(t *testing.T) {
	for _, test := range []struct {
		w load
		// sources and destinations are the references to sets in the rules of all policies.
		sources, destinations int
	}{
		{snapshot{remote: 3100, policies: 310}, 5 * 310, 0},
		{networkSets{remote: 100, sets: 50}, 50, 0},
		{isolated{namespaces: 300}, 100, 100},
	} {
		t.Run(fmt.Sprintf("%T", test.w), func(t *testing.T) {
			g, s := newMirrored(t)
			g.apply(slices.Collect(test.w.updates()))
			g.inSync()
			want := test.w.want()
			require.Equal(t, want, g.flushes())
			require.Len(t, s.sets, want.sets)
			members := 0
			for _, set := range s.sets {
				members += len(set)
				for member := range set {
					require.True(t, netip.MustParsePrefix(member).Addr().Is4(), "%s", member)
				}
			}
			require.Equal(t, want.members, members)
			require.Len(t, s.policies, want.policies)
			require.Equal(t, test.sources, s.sources)
			require.Equal(t, test.destinations, s.destinations)
			require.Len(t, s.profiles, want.profiles)
			for id, rules := range s.profiles {
				require.Empty(t, rules, "%s has rules: Felix adds some if it does not know a profile", id)
			}
			require.Len(t, s.endpoints, want.endpoints)
		})
	}
	t.Run("full size is that of the recorded figures", func(t *testing.T) {
		want := snapshot{remote: 250_000, policies: 10_000}.want()
		require.Equal(t, 250_200, want.members)
		require.Equal(t, 72_893, want.ingress)
		require.Equal(t, 111_800, networkSets{sets: 1_000}.want().members)
		require.Equal(t, 1_118_000, networkSets{sets: 10_000}.want().members)
	})
	t.Run("deletion of the local endpoints of W1 removes all state", func(t *testing.T) {
		w := snapshot{remote: 3100, policies: 310}
		g, s := newMirrored(t)
		g.apply(slices.Collect(w.updates()))
		g.inSync()
		g.flush()
		g.apply(w.deleteLocal())
		require.Equal(t, w.wantDeleted(), g.flushes())
		require.Empty(t, s.sets)
		require.Empty(t, s.policies)
		require.Empty(t, s.profiles)
		require.Empty(t, s.endpoints)
	})
}

// newMirrored returns a graph, and the state that results from all of its messages.
func newMirrored(t testing.TB) (*graph, *state) {
	g, s := newGraph(), newState(t)
	g.sequencer.Callback = func(message any) {
		g.flushed.count(message)
		s.apply(message)
	}
	return g, s
}
