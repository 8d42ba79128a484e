// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// A map whose keys or values packets carry is deleted in a transaction of its own, after a grace
// period. The kernel empties a deleted map at once, and a delayed packet would find no element.
func TestMapsAreDeletedAfterGrace(t *testing.T) {
	classID := []ruleset.Type{ruleset.TypeClassID}
	chain := &ruleset.Chain{Name: "to/a"}
	for _, c := range []struct {
		name  string
		set   ruleset.Set
		turns bool
	}{
		{
			"values in packets",
			ruleset.Set{Key: []ruleset.Type{ruleset.TypeIPv4}, Data: classID, DeleteAfterGrace: true},
			true,
		},
		{"keys in packets", ruleset.Set{Key: classID, Verdicts: true, DeleteAfterGrace: true}, true},
		{"map without the flag", ruleset.Set{Key: []ruleset.Type{ruleset.TypeIPv4}, Data: classID}, false},
		{"set of addresses", ruleset.Set{Key: []ruleset.Type{ruleset.TypeIPv4}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ops := []ruleset.Op{
				{Kind: ruleset.ReplaceRule, Chain: chain},
				{Kind: ruleset.DeleteChain, Chain: &ruleset.Chain{Name: "group"}},
				{Kind: ruleset.DeleteSet, Set: &c.set},
			}
			require.Equal(t, c.turns, inTurn(ops, shadowConditions{}))
			p := phasesOf(ops)
			require.Equal(t, ops[:1], p.live)
			require.Equal(t, ops[1:], p.destroy)
		})
	}
}
