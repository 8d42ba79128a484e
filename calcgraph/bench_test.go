// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"flag"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/workload"
	"github.com/wayleave/wayleave/policy"
)

// fullSize adds the benchmarks at the size of the figures in docs/benchmarks.md. Without it, they
// run at a tenth of the size.
var fullSize = flag.Bool("full", false, "run the benchmarks at full size too")

// load is one of W1 to W4 at some scale.
type load interface {
	fmt.Stringer
	updates() iter.Seq[policy.Update]
	// want has the counts of the first batch.
	want() tally
}

// sizes returns the workloads of usual runs, and those of full size if the flag is set.
func sizes[W any](everyday []W, full ...W) []W {
	if *fullSize {
		return append(everyday, full...)
	}
	return everyday
}

func newBenchGraph(b *testing.B) *calcgraph.Graph {
	b.Helper()
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	require.NoError(b, err)
	return graph
}

// BenchmarkW1 loads 250,000 remote and 200 local endpoints and 10,000 policies.
func BenchmarkW1(b *testing.B) {
	for _, w := range sizes([]snapshot{{25_000, 1_000}}, snapshot{250_000, 10_000}) {
		b.Run(w.String(), func(b *testing.B) { benchmarkLoad(b, w, nil) })
	}
}

// BenchmarkW1Floor measures a minimal index of W1's labels, two Go maps: each name, value and key
// is looked up once.
func BenchmarkW1Floor(b *testing.B) {
	for _, w := range sizes([]snapshot{{25_000, 1_000}}, snapshot{250_000, 10_000}) {
		b.Run(w.String(), func(b *testing.B) {
			updates := slices.Collect(w.updates())
			runtime.GC()
			b.ReportAllocs()
			for b.Loop() {
				words, keys := map[string]int{}, map[policy.Key]int{}
				for i, u := range updates {
					if e, ok := u.Resource.(*policy.WorkloadEndpoint); ok {
						keys[u.Key] = i
						for name, value := range e.Labels {
							words[name]++
							words[value]++
						}
					}
				}
			}
		})
	}
}

// BenchmarkW1DeleteLocal loads W1, then deletes the local endpoints, so that all events are
// reverted.
func BenchmarkW1DeleteLocal(b *testing.B) {
	for _, w := range sizes([]snapshot{{25_000, 1_000}}, snapshot{250_000, 10_000}) {
		deletes := w.deleteLocal()
		b.Run(w.String(), func(b *testing.B) {
			benchmarkLoad(b, w, func(b *testing.B, graph *calcgraph.Graph) {
				for _, u := range deletes {
					graph.Update(u)
				}
				batch := graph.Flush()
				b.StopTimer()
				want := w.want()
				require.Equal(b, tally{
					sets: want.sets, policies: want.policies, profiles: want.profiles, endpoints: want.endpoints,
				}, countRemovals(batch))
				b.StartTimer()
			})
		})
	}
}

// BenchmarkW2 loads 1,000 network sets of 111,800 addresses that 1,000 policies on 200 endpoints
// use.
func BenchmarkW2(b *testing.B) {
	for _, w := range sizes([]networkSets{{1_000, 100}}, networkSets{10_000, 1_000}) {
		b.Run(w.String(), func(b *testing.B) { benchmarkLoad(b, w, nil) })
	}
}

// BenchmarkW3 is W2 with ten times the sets and policies.
func BenchmarkW3(b *testing.B) {
	for _, w := range sizes([]networkSets{{10_000, 1_000}}, networkSets{10_000, 10_000}) {
		b.Run(w.String(), func(b *testing.B) { benchmarkLoad(b, w, nil) })
	}
}

// BenchmarkW4 loads namespaces with a pod and a policy each, of which 100 are on this node. The
// time must be linear in their number.
func BenchmarkW4(b *testing.B) {
	for _, w := range sizes([]isolated{{namespaces: 1_000}, {namespaces: 10_000}}, isolated{namespaces: 100_000}) {
		b.Run(w.String(), func(b *testing.B) { benchmarkLoad(b, w, nil) })
	}
}

// benchmarkLoad measures the time from an empty graph to the first batch, and then afterwards. The
// updates are made before.
func benchmarkLoad(b *testing.B, w load, afterwards func(*testing.B, *calcgraph.Graph)) {
	updates := slices.Collect(w.updates())
	want := w.want()
	runtime.GC()
	b.ReportAllocs()
	for b.Loop() {
		graph := newBenchGraph(b)
		for _, u := range updates {
			graph.Update(u)
		}
		graph.InSync()
		batch := graph.Flush()
		b.StopTimer()
		require.Equal(b, want, count(batch))
		b.StartTimer()
		if afterwards != nil {
			afterwards(b, graph)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(updates)), "ns/update")
}

// BenchmarkHeap measures the memory of a graph if the caller keeps no updates. The time is that of
// the graph only, without making the updates.
func BenchmarkHeap(b *testing.B) {
	var everyday, full []load
	everyday = append(everyday, snapshot{25_000, 1_000}, networkSets{1_000, 1_000}, isolated{namespaces: 10_000})
	full = append(full,
		snapshot{250_000, 10_000}, snapshot{1_000_000, 10_000},
		networkSets{10_000, 1_000}, networkSets{10_000, 10_000}, isolated{namespaces: 100_000})
	names := map[string]string{
		"calcgraph_test.snapshot": "W1", "calcgraph_test.networkSets": "W3", "calcgraph_test.isolated": "W4",
	}
	for _, w := range sizes(everyday, full...) {
		b.Run(names[fmt.Sprintf("%T", w)]+"/"+w.String(), func(b *testing.B) {
			b.ReportAllocs()
			var graphOnly, withBatch uint64
			for b.Loop() {
				graphOnly, withBatch = heapKept(b, w)
			}
			b.ReportMetric(float64(graphOnly)/1e6, "heap-MB")
			b.ReportMetric(float64(withBatch)/1e6, "heap-with-batch-MB")
			if _, ok := w.(networkSets); ok {
				b.ReportMetric(float64(graphOnly)/float64(w.want().members), "heap-B/member")
			}
		})
	}
}

// BenchmarkHeapEndpoints measures the memory of a remote endpoint of W1 without policies.
func BenchmarkHeapEndpoints(b *testing.B) {
	for _, n := range sizes([]int{25_000}, 250_000) {
		b.Run("eps="+short(n), func(b *testing.B) {
			b.ReportAllocs()
			w := snapshot{remote: n}
			var kept uint64
			for b.Loop() {
				b.StopTimer()
				graph := newBenchGraph(b)
				feed(b, graph, func(yield func(policy.Update) bool) {
					for n := range 100 {
						if !yield(update(workload.Profile(n, "a"))) {
							return
						}
					}
				})
				graph.InSync()
				graph.Flush()
				before := heap()
				feed(b, graph, func(yield func(policy.Update) bool) {
					m := workload.Markers()
					for s := 1; s <= n; s++ {
						if !yield(update(w.shared().Endpoint(m, s))) {
							return
						}
					}
				})
				b.StartTimer()
				graph.Flush()
				b.StopTimer()
				kept = heap() - before
				runtime.KeepAlive(graph)
				b.StartTimer()
			}
			b.ReportMetric(float64(kept)/float64(n), "heap-B/endpoint")
		})
	}
}

// heapKept loads a workload and drops each update. It returns the heap memory of the graph, and of
// the graph with its first batch. The timer must be running, and measures only the graph.
func heapKept(b *testing.B, w load) (graphOnly, withBatch uint64) {
	b.StopTimer()
	before := heap()
	graph := newBenchGraph(b)
	feed(b, graph, w.updates())
	b.StartTimer()
	graph.InSync()
	batch := graph.Flush()
	b.StopTimer()
	require.Equal(b, w.want(), count(batch))
	withBatch = heap() - before
	runtime.KeepAlive(batch.Events)
	batch = dataplane.Batch{}
	graphOnly = heap() - before
	runtime.KeepAlive(batch.Events)
	runtime.KeepAlive(graph)
	b.StartTimer()
	return graphOnly, withBatch
}

// feed applies updates to a graph in portions. The timer is stopped while a portion is made.
// Portions are dropped afterwards.
func feed(b *testing.B, graph *calcgraph.Graph, updates iter.Seq[policy.Update]) {
	portion := make([]policy.Update, 0, 10_000)
	give := func() {
		b.StartTimer()
		for _, u := range portion {
			graph.Update(u)
		}
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
