// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each content has a unique number, which depends only on the present contents, although most
// contents collide. Add and Remove report whether another number changed.
func TestNumbers(t *testing.T) {
	few := func(hash uint32) uint32 { return hash % 23 }
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n, all := NewNumbers(few), map[string]*Numbered{}
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
				moved = n.Remove(x)
			case len(all) < 20:
				all[name] = &Numbered{content: name}
				moved = n.Add(all[name])
			}
			really := false
			for k, x := range before {
				really = really || all[k].number != x
			}
			require.Equal(t, really, moved, "seed %d", seed)
			fresh := NewNumbers(few)
			for _, k := range slices.Sorted(maps.Keys(all)) {
				x := &Numbered{content: k}
				fresh.Add(x)
			}
			require.Len(t, n.taken, len(all))
			for k, x := range all {
				require.Same(t, x, n.taken[x.number])
				require.Equal(t, k, fresh.taken[x.number].content, "seed %d", seed)
				require.Equal(t, fresh.taken[x.number].tries, x.tries)
			}
		}
		for _, x := range all {
			n.Remove(x)
		}
		require.Empty(t, n.taken)
		require.Empty(t, n.passed)
	}
}
