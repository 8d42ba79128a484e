// SPDX-License-Identifier: Apache-2.0

package labelindex_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/workload"
)

// heap returns the bytes in use after a garbage collection.
func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// The memory of an item without selectors stays below a limit. The caller's names are not included.
func TestItemMemoryIsBounded(t *testing.T) {
	n := 250_000
	if testing.Short() {
		n /= 5
	}
	for _, tc := range []struct {
		name  string
		load  func(*index, []string)
		limit int // bytes an item
	}{
		{"W1", loadSnapshot, 160},
		{"W4", loadIsolated, 600},
	} {
		t.Run(tc.name, func(t *testing.T) {
			names := pods(n)
			x, _ := newCounting(t)
			before := heap()
			tc.load(x, names)
			kept := float64(heap()-before) / float64(n)
			t.Logf("%.1f bytes an item, at most %d", kept, tc.limit)
			require.LessOrEqual(t, kept, float64(tc.limit))
			runtime.KeepAlive(names)
			runtime.KeepAlive(x)
		})
	}
}

// Removed items take no memory, in whatever order they are removed.
func TestRemovalReleasesMemory(t *testing.T) {
	n := 50_000
	if testing.Short() {
		n /= 5
	}
	names := pods(n)
	for _, order := range []string{"items first", "selectors first"} {
		t.Run(order, func(t *testing.T) {
			x, reports := newCounting(t)
			empty, before := x.Size(), heap()
			loadSnapshot(x, names)
			for i, m := range workload.Markers() {
				x.UpdateSelector("has-"+strconv.Itoa(i), parse(t, "has("+m+")"))
				x.UpdateSelector("not-"+strconv.Itoa(i), parse(t, "profile != \""+strconv.Itoa(i)+"\""))
			}
			full := heap()
			require.Greater(t, full-before, 1<<20)
			items := func() {
				for i := range names {
					x.DeleteItem(names[(i*7919)%n])
				}
			}
			selectors := func() {
				for i := range workload.Markers() {
					x.DeleteSelector("has-" + strconv.Itoa(i))
					x.DeleteSelector("not-" + strconv.Itoa(i))
				}
			}
			if order == "items first" {
				items()
				selectors()
			} else {
				selectors()
				items()
			}
			for i := range 100 {
				x.DeleteParent("namespace-" + strconv.Itoa(i))
			}
			require.Equal(t, empty, x.Size())
			kept := heap() - before
			t.Logf("%d bytes of %d left after %d reports", kept, full-before, *reports)
			require.Less(t, kept, 16<<10)
			runtime.KeepAlive(x)
		})
	}
	runtime.KeepAlive(names)
}
