// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Maps that say what packets carry from one lookup to the next go after what looks into them, in a transaction of their own: the kernel empties
// them at once, and a packet under way would go on as one of which nothing is said.
func TestCarriedMapsGoLater(t *testing.T) {
	chain := &ruleset.Chain{Name: "to/a"}
	for _, c := range []struct {
		name  string
		set   ruleset.Set
		turns bool
	}{
		{"class of an address", ruleset.Set{Key: []ruleset.Type{ruleset.TypeIPv4}, Data: []ruleset.Type{ruleset.TypeClassID}}, true},
		{"outcome of a class", ruleset.Set{Key: []ruleset.Type{ruleset.TypeClassID}, Data: []ruleset.Type{ruleset.TypeClassID}}, true},
		{"chain of an outcome", ruleset.Set{Key: []ruleset.Type{ruleset.TypeClassID}, Verdicts: true}, true},
		{"set of addresses", ruleset.Set{Key: []ruleset.Type{ruleset.TypeIPv4}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ops := []ruleset.Op{
				{Kind: ruleset.ReplaceRule, Chain: chain},
				{Kind: ruleset.DeleteChain, Chain: &ruleset.Chain{Name: "group"}},
				{Kind: ruleset.DeleteSet, Set: &c.set},
			}
			require.Equal(t, c.turns, inTurn(ops))
			p := phasesOf(ops)
			require.Equal(t, ops[:1], p.live)
			require.Equal(t, ops[1:], p.destroy)
		})
	}
}
