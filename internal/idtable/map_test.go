// SPDX-License-Identifier: Apache-2.0

package idtable_test

import (
	"hash/maphash"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/idtable"
)

// Keys get low numbers, and keep them and their values. An empty map has no memory.
func TestMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	seed := maphash.MakeSeed()
	m := idtable.NewMap[int, int](func(key int) uint64 { return maphash.Comparable(seed, key) })
	want := map[int]uint32{}
	for step := range 200_000 {
		key := rng.IntN(5_000)
		id, hash, ok := m.Find(key)
		wantID, wantOK := want[key]
		if wantOK != ok || wantID != id || ok && (*m.Key(id) != key || *m.At(id) != -key) {
			require.Fail(t, "Find is wrong", "step %d", step)
		}
		switch {
		case ok:
			if rng.IntN(3) > 0 || step > 150_000 {
				m.Remove(id)
				delete(want, key)
			}
		case step < 150_000:
			id = m.Add(key, hash)
			if int(id) > len(want) || *m.At(id) != 0 {
				require.Fail(t, "Add is wrong", "step %d", step)
			}
			*m.At(id) = -key
			want[key] = id
		}
	}
	require.Equal(t, len(want), m.Len())
	require.Len(t, m.AppendTo(nil), len(want))
	for _, id := range want {
		require.True(t, m.Has(id))
		m.Remove(id)
	}
	require.Zero(t, m.Len())
	require.Zero(t, m.Size())
}
