// SPDX-License-Identifier: Apache-2.0

package sets_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Several changes of an element between two flushes are merged into one, from its state at the
// former flush. An element that was added and deleted is no change.
func TestChangesBetweenFlushesAreMerged(t *testing.T) {
	accept, drop := ruleset.Verdict{Kind: ruleset.Accept}, ruleset.Verdict{Kind: ruleset.Drop}
	key := ruleset.Uint32(1)
	s := sets.NewElementSet(ruleset.Set{Name: "m", Key: []ruleset.Type{ruleset.TypeMark}, Verdicts: true})
	s.Wanted = true
	flush := func() (d ruleset.Delta) {
		s.Flush(&d)
		return d
	}
	require.Len(t, flush().Sets, 1)
	s.Put(sets.Element(&accept, key))
	s.Remove(string(key))
	require.Empty(t, flush().Elements)
	s.Put(sets.Element(&accept, key))
	require.Len(t, flush().Elements, 1)
	s.Put(sets.Element(&drop, key))
	s.Remove(string(key))
	deleted := []ruleset.ElementDelta{{Set: "m", Delete: []ruleset.Element{sets.Element(&accept, key)}}}
	require.Equal(t, deleted, flush().Elements)
}
