// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/fieldwalk"
	"github.com/wayleave/wayleave/policy"
)

// resolved records the last rules.
type resolved struct {
	recorder
	rules calcgraph.Rules
}

func (r *resolved) RulesUpdate(_ policy.Key, rules calcgraph.Rules) { r.rules = rules }

// The scanner resolves every field of a rule except its metadata. A rule that loses a field would
// match too much.
func TestEveryFieldOfRulesIsResolved(t *testing.T) {
	resolve := func(rule policy.Rule) dataplane.Rule {
		var out resolved
		scanner := calcgraph.NewRuleScanner(calcgraph.RuleScannerConfig{Sets: &out, Rules: &out})
		scanner.PolicyActive(&policy.Policy{Name: "p", Ingress: []policy.Rule{rule}})
		require.Len(t, out.rules.Ingress, 1)
		out.rules.Ingress[0].ID = ""
		return out.rules.Ingress[0]
	}
	var filled policy.Rule
	fieldwalk.Fill(reflect.ValueOf(&filled).Elem(), policy.PortRange(80, 90))
	for _, e := range []*policy.EntityRule{&filled.Source, &filled.Destination} {
		e.Selector, e.NotSelector, e.NamespaceSelector = "has(a)", "has(b)", "has(c)"
		e.ServiceAccounts.Selector = "has(d)"
	}
	empty := resolve(policy.Rule{})
	fields := 0
	for i, leaf := range fieldwalk.Leaves(reflect.ValueOf(&filled).Elem()) {
		if strings.HasPrefix(leaf.Path, ".Doubts") {
			continue // a rule in doubt is closed: other tests check it
		}
		var rule policy.Rule
		fieldwalk.Leaves(reflect.ValueOf(&rule).Elem())[i].Value.Set(leaf.Value)
		got := resolve(rule)
		require.Equal(t, strings.HasPrefix(leaf.Path, ".Metadata"), got.Equal(&empty), leaf.Path)
		fields++
	}
	require.Greater(t, fields, 20)
}
