// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// TestReferencesOfRules: a rule lists the sets that it looks up and the chains to which it leads.
func TestReferencesOfRules(t *testing.T) {
	jump, leave, drop := verdict(ruleset.Jump, "a"), verdict(ruleset.Goto, "b"), verdict(ruleset.Drop)
	source := []ruleset.Field{ruleset.IPSaddr}
	for name, tt := range map[string]struct {
		rule         ruleset.Rule
		sets, chains []string
	}{
		"nothing": {rule: rule(drop, is(ruleset.Mark, ruleset.Uint32(1)))},
		"lookup": {
			rule: rule(jump, ruleset.Lookup{Fields: source, Set: "s"}, ruleset.Lookup{Fields: source, Set: "s"}),
			sets: []string{"s", "s"}, chains: []string{"a"},
		},
		"goto":      {rule: rule(leave), chains: []string{"b"}},
		"named map": {rule: rule(ruleset.VMap{Fields: source, Map: "m"}), sets: []string{"m"}},
		"anonymous map": {
			rule: rule(ruleset.VMap{Fields: source, Elements: []ruleset.Element{
				{Key: values(addr("10.0.0.1")), Verdict: &leave},
				{Key: values(addr("10.0.0.2")), Verdict: &drop},
				{Key: values(addr("10.0.0.3")), Verdict: &jump},
			}}),
			chains: []string{"b", "a"},
		},
		"maps of values": {
			rule: ruleset.Rule{Statements: []ruleset.Statement{
				ruleset.Assign{Field: ruleset.Mark, Fields: source, Map: "m"},
				ruleset.NAT{Kind: ruleset.DNAT, Fields: source, Map: "n"},
			}},
			sets: []string{"m", "n"},
		},
		"raw": {
			rule: rule(
				ruleset.Raw{Text: "y", Sets: []string{"t"}, Chains: []string{"d"}},
				ruleset.Raw{Text: "x", Sets: []string{"s"}, Chains: []string{"c"}},
			),
			sets: []string{"s", "t"}, chains: []string{"c", "d"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.sets, slices.Collect(tt.rule.Sets()))
			require.Equal(t, tt.chains, slices.Collect(tt.rule.Chains()))
			for range tt.rule.Chains() {
				break // a caller may stop early
			}
		})
	}
}

// TestEndOfElements: the end of a field is its last value, or its only one.
func TestEndOfElements(t *testing.T) {
	one, two, five, nine := ruleset.Port(1), ruleset.Port(2), ruleset.Port(5), ruleset.Port(9)
	for name, tt := range map[string]struct {
		element ruleset.Element
		want    []ruleset.Value
	}{
		"value":         {ruleset.Element{Key: values(one)}, values(one)},
		"range":         {ruleset.Element{Key: values(one), Last: five}, values(five)},
		"concatenation": {ruleset.Element{Key: values(one, two)}, values(one, two)},
		"ranges":        {ruleset.Element{Key: values(one, two), Ends: values(five, nine)}, values(five, nine)},
		"no end":        {ruleset.Element{Key: values(one, two), Ends: values(nil, nine)}, values(one, nine)},
	} {
		t.Run(name, func(t *testing.T) {
			for i, want := range tt.want {
				require.Equal(t, want, tt.element.End(i))
			}
		})
	}
}
