// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Several sets that grow and shrink through all representations agree with maps.
func TestSetsAgainstMaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	var s sets
	sizes := []int{1, 3, 20, 300, 9_000, 200_000} // number of possible ids of each set
	got := make([]set, len(sizes))
	want := make([]map[uint32]bool, len(sizes))
	for i := range want {
		want[i] = map[uint32]bool{}
	}
	for step := range 400_000 {
		i := rng.IntN(len(sizes))
		id := uint32(rng.IntN(sizes[i]))
		// Phases with more additions alternate with phases with more removals.
		if grow := step/100_000%2 == 0; (rng.IntN(8) > 0) == grow {
			if s.add(&got[i], id) == want[i][id] {
				require.Fail(t, "add is wrong", "step %d", step)
			}
			want[i][id] = true
		} else {
			if s.remove(&got[i], id) != want[i][id] {
				require.Fail(t, "remove is wrong", "step %d", step)
			}
			delete(want[i], id)
		}
		if step%20_000 == 0 {
			for i := range got {
				require.Equal(t, slices.Sorted(maps.Keys(want[i])), s.appendTo(nil, got[i]))
			}
		}
	}
	for i := range got {
		require.Equal(t, len(want[i]), int(got[i].n))
		if i%2 == 0 {
			s.clear(&got[i])
		}
		for id := range want[i] {
			s.remove(&got[i], id)
		}
		require.Zero(t, got[i])
	}
	require.Zero(t, s.len())
	require.Zero(t, s.bitmaps.Size())
	for _, c := range s.classes {
		require.Empty(t, c.chunks)
	}
}

// A dense part is converted to bits, and to an array again when it becomes sparse.
func TestBitmapForms(t *testing.T) {
	var b bitmap
	for id := range uint32(3 * partBits) {
		if !b.add(id) || b.add(id) {
			require.Fail(t, "add is wrong", "id %d", id)
		}
	}
	require.Len(t, b.parts, 3)
	require.NotNil(t, b.parts[1].bits)
	var want []uint32
	for id := range uint32(3 * partBits) {
		if id%100 == 7 {
			want = append(want, id)
			continue
		}
		if !b.remove(id) || b.remove(id) {
			require.Fail(t, "remove is wrong", "id %d", id)
		}
	}
	require.Nil(t, b.parts[1].bits)
	require.Less(t, cap(b.parts[1].array), minBits)
	require.Equal(t, want, b.appendTo(nil))
	for _, id := range want {
		require.True(t, b.remove(id))
	}
	require.Empty(t, b.parts)
}

// Lists of any length agree with slices, and each size class is used.
func TestLists(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	for n := uint32(1); n < 5_000; n++ {
		index, size := classOf(n)
		require.LessOrEqual(t, n, size)
		require.LessOrEqual(t, size-n, n/8)
		last, _ := classOf(n + 1)
		require.LessOrEqual(t, last-index, 1)
	}
	var s lists
	got, want := make([]list, 50), make([][]uint32, 50)
	for step := range 20_000 {
		i, id := rng.IntN(len(got)), rng.Uint32()
		switch n := len(want[i]); {
		case rng.IntN(50) == 0:
			want[i] = make([]uint32, rng.IntN(60))
			for k := range want[i] {
				want[i][k] = rng.Uint32()
			}
			s.put(&got[i], want[i])
		case n > 0 && rng.IntN(2) == 0:
			index := rng.IntN(n)
			want[i] = slices.Delete(want[i], index, index+1)
			s.removeAt(&got[i], index)
		default:
			index := rng.IntN(n + 1)
			want[i] = slices.Insert(want[i], index, id)
			s.insert(&got[i], index, id)
		}
		if step%100 == 0 {
			for i := range got {
				require.True(t, slices.Equal(want[i], s.get(got[i])), "list %d", i)
			}
		}
	}
	for i := range got {
		s.put(&got[i], nil)
	}
	require.Zero(t, s.blocks())
}
