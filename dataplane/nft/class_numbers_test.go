// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNumbers: out of few numbers, so that most collide, each content has one of its own, which depends on the contents there are alone; and whoever
// gets another one is told of.
func TestNumbers(t *testing.T) {
	few := func(hash uint32) uint32 { return hash % 23 }
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n, all := newNumbers(few), map[string]*numbered{}
		for range 300 {
			before := map[string]uint32{}
			for k, x := range all {
				before[k] = x.number
			}
			name := fmt.Sprint("content ", rng.IntN(40))
			var moved bool
			switch x := all[name]; {
			case x != nil:
				delete(before, name)
				delete(all, name)
				moved = n.remove(x)
			case len(all) < 20:
				all[name] = &numbered{content: name}
				moved = n.add(all[name])
			}
			really := false
			for k, x := range before {
				really = really || all[k].number != x
			}
			require.Equal(t, really, moved, "seed %d", seed)
			fresh := newNumbers(few)
			for _, k := range slices.Sorted(maps.Keys(all)) {
				x := &numbered{content: k}
				fresh.add(x)
			}
			require.Len(t, n.taken, len(all))
			for k, x := range all {
				require.Same(t, x, n.taken[x.number])
				require.Equal(t, k, fresh.taken[x.number].content, "seed %d", seed)
				require.Equal(t, fresh.taken[x.number].tries, x.tries)
			}
		}
		for _, x := range all {
			n.remove(x)
		}
		require.Empty(t, n.taken)
		require.Empty(t, n.passed)
	}
}

// TestNumberRanges: no number of a class is zero or can be an outcome's, and none of an outcome the one that says allowed.
func TestNumberRanges(t *testing.T) {
	for _, hash := range []uint32{0, 1, carryOutcome - 1, carryOutcome, carryOutcome + 1, carryAllowed - 1, carryAllowed, carryAllowed + 1} {
		require.NotZero(t, classNumber(hash))
		require.Less(t, classNumber(hash), carryOutcome)
		require.GreaterOrEqual(t, outcomeNumber(hash), carryOutcome)
		require.Less(t, outcomeNumber(hash), carryAllowed)
	}
}
