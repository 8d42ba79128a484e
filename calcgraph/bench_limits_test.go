// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/policy"
)

// The memory of a graph stays below a limit if the caller keeps no updates. The limits are those of
// the figures at full size.
func TestGraphMemoryIsBounded(t *testing.T) {
	for _, test := range []struct {
		name string
		w    load
		// setup reports whether an update is applied before the measurement. The others are applied
		// after it.
		setup func(u policy.Update) bool
		units int
		limit float64 // bytes a unit
	}{
		{
			"a remote endpoint of W1, no policies",
			snapshot{remote: 25_000},
			func(u policy.Update) bool { return u.Key.Kind == policy.KindProfile },
			25_000, 250,
		},
		{
			"an address in a network set of W3, with everything",
			networkSets{1_000, 1_000},
			func(policy.Update) bool { return false },
			111_800, 134,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			graph := newGraph(t)
			for u := range test.w.updates() {
				if test.setup(u) {
					graph.Update(u)
				}
			}
			graph.InSync()
			graph.Flush()
			before := heap()
			for u := range test.w.updates() {
				if !test.setup(u) {
					graph.Update(u)
				}
			}
			graph.Flush()
			kept := float64(heap()-before) / float64(test.units)
			runtime.KeepAlive(graph)
			t.Logf("%.0f bytes, at most %.0f", kept, test.limit)
			require.Less(t, kept, test.limit)
		})
	}
}

// Worlds with new names are added and removed, in either order. The memory after each removal does
// not grow. It varies, because selectors are cached.
func TestMemoryIsReleased(t *testing.T) {
	graph := newGraph(t)
	graph.InSync()
	left := make([]uint64, 48)
	for cycle := range left {
		w := isolated{namespaces: 300, first: 1000 * (1 + cycle)}
		var keys []policy.Key
		for u := range w.updates() {
			graph.Update(u)
			keys = append(keys, u.Key)
		}
		graph.Flush()
		if cycle%2 == 0 {
			slices.Reverse(keys)
		}
		for _, key := range keys {
			graph.Update(policy.Update{Key: key})
		}
		graph.Flush()
		left[cycle] = heap()
	}
	runtime.KeepAlive(graph)
	earlier, later := slices.Max(left[16:32]), slices.Max(left[32:])
	t.Logf("at most %d kB, then %d kB", earlier/1000, later/1000)
	require.Less(t, later, earlier+earlier/10)
}

// TestLoadAllocations limits the allocations of an update up to the first batch.
func TestLoadAllocations(t *testing.T) {
	for _, test := range []struct {
		w     load
		limit float64
	}{
		{snapshot{10_000, 400}, 3},
		{networkSets{1_000, 1_000}, 20},
		{isolated{namespaces: 2_000}, 9},
	} {
		updates := slices.Collect(test.w.updates())
		allocs := testing.AllocsPerRun(1, func() {
			graph, err := calcgraph.New(calcgraph.Config{Node: node})
			require.NoError(t, err)
			for _, u := range updates {
				graph.Update(u)
			}
			graph.InSync()
			graph.Flush()
		}) / float64(len(updates))
		t.Logf("%T: %.1f allocations an update, at most %.0f", test.w, allocs, test.limit)
		require.Less(t, allocs, test.limit)
	}
}
