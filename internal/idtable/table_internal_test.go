// SPDX-License-Identifier: Apache-2.0

package idtable

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A table finds the same ids as a map after random additions and removals, even if many ids have
// the same hash.
func TestTableEqualsMap(t *testing.T) {
	for _, hashes := range []uint32{1, 5, 1000, 1 << 31} {
		random := rand.New(rand.NewPCG(1, uint64(hashes)))
		hashOf := func(id uint32) uint32 { return id * 0x9e3779b1 % hashes }
		var tab table
		model := map[uint32]bool{}
		for round := range 20000 {
			id := random.Uint32N(400)
			if shrinking := round%4000 > 2500; shrinking {
				id %= 100
			}
			switch {
			case !model[id] && round%4000 <= 2500:
				tab.add(id, hashOf(id))
				model[id] = true
			case model[id]:
				tab.remove(id, hashOf(id))
				delete(model, id)
			}
			query := random.Uint32N(400)
			found, ok := tab.find(hashOf(query), func(id uint32) bool { return id == query })
			require.Equal(t, model[query], ok, "round %d, id %d", round, query)
			require.True(t, !ok || found == query)
			require.Equal(t, len(model), tab.n)
			require.LessOrEqual(t, tab.n*4, tab.size()*3)
			require.LessOrEqual(t, tab.size(), max(8, tab.n*8))
		}
		for id := range model {
			tab.remove(id, hashOf(id))
		}
		require.Zero(t, tab.size(), "an empty table has no memory")
	}
}

// find calls match only for ids with an equal hash.
func TestFindMatchesOneHash(t *testing.T) {
	var tab table
	for id := range uint32(100) {
		tab.add(id, id<<8) // all begin their search in one slot
	}
	calls := 0
	_, ok := tab.find(50<<8, func(id uint32) bool { calls++; return id == 50 })
	require.True(t, ok)
	require.Equal(t, 1, calls)
}
