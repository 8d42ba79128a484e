// SPDX-License-Identifier: Apache-2.0

package render

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/internal/fieldwalk"
	"github.com/wayleave/wayleave/policy"
)

// The tests of this file fail when dataplane.Rule gets a field that a part of the renderer ignores.

// filledRule returns a rule in which every field is set to a value that the renderer accepts.
func filledRule() dataplane.Rule {
	var r dataplane.Rule
	fieldwalk.Fill(reflect.ValueOf(&r).Elem(), policy.PortRange(80, 90), policy.Allow, policy.ProtocolTCP)
	r.IPVersion, r.NotProtocol = 4, policy.ProtocolUDP
	for _, side := range [...]*dataplane.Match{&r.Source, &r.Destination} {
		side.Sets, side.NotSets = []dataplane.IPSetID{"s:a"}, []dataplane.IPSetID{"s:b"}
		side.PortSets, side.NotPortSets = []dataplane.IPSetID{"p:a"}, []dataplane.IPSetID{"p:b"}
	}
	return r
}

// eachField calls f with rules that allow and have one field more, each field of a rule in turn.
func eachField(f func(path string, rule dataplane.Rule)) {
	filled := filledRule()
	for i, leaf := range fieldwalk.Leaves(reflect.ValueOf(&filled).Elem()) {
		rule := dataplane.Rule{Action: policy.Allow}
		fieldwalk.Leaves(reflect.ValueOf(&rule).Elem())[i].Value.Set(leaf.Value)
		f(leaf.Path, rule)
	}
}

// A plain rule has only plainFields. A rule that does not depend on the address family has only
// anyFields.
var (
	plainFields = []string{
		".ID", ".Action", ".IPVersion", ".Protocol", ".NotProtocol", ".Destination.Ports", ".Destination.NotPorts",
	}
	anyFields = []string{
		".ID", ".Action", ".Protocol", ".NotProtocol",
		".Source.Ports", ".Source.NotPorts", ".Destination.Ports", ".Destination.NotPorts",
	}
)

// Every field has matches. A rule with a field that decisions do not have is not plain.
func TestFieldsOfRules(t *testing.T) {
	fields := 0
	eachField(func(path string, rule dataplane.Rule) {
		require.True(t, match.Known(rule), path)
		require.Equal(t, slices.Contains(plainFields, path), match.IsPlain(rule), path)
		require.Equal(t, slices.Contains(plainFields[:3], path), match.MatchesAll(rule), path)
		require.Equal(t, slices.Contains(anyFields, path), match.ForAnyFamily(rule), path)
		require.Equal(t, strings.HasSuffix(path, "Sets"), len(match.SetIDs(&rule)) > 0, path)
		fields++
	})
	require.Greater(t, fields, 20)
	require.False(t, match.IsPlain(dataplane.Rule{Action: policy.Log}))
	require.False(t, match.IsPlain(dataplane.Rule{Action: "Unheard"}))
}

// Every field changes the rendered table.
func TestFieldsAreRendered(t *testing.T) { eachForm(t, testFieldsAreRendered) }

func testFieldsAreRendered(t *testing.T, classes ClassesConfig) {
	plain := renderRule(t, classes, dataplane.Rule{Action: policy.Allow})
	eachField(func(path string, rule dataplane.Rule) {
		if rule.Action = policy.Deny; path != ".Action" {
			rule.Action = policy.Allow
		}
		require.Equal(t, path == ".ID" && !classes.TestHook.HasChains(), plain == renderRule(t, classes, rule), path)
	})
}

// renderRule returns the table for an endpoint that has the rule for both directions.
func renderRule(t *testing.T, classes ClassesConfig, rule dataplane.Rule) string {
	r, err := New(Config{Classes: classes})
	require.NoError(t, err)
	key := policy.Key{Kind: policy.KindPolicy, Name: "p"}
	tiers := []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}}
	address := netip.MustParsePrefix("10.0.0.1/32")
	port := dataplane.Member{Prefix: address, Protocol: policy.ProtocolTCP, Port: 80}
	r.Update(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.IPSetUpdate{ID: "s:a", Members: []dataplane.Member{{Prefix: address}}},
		&dataplane.IPSetUpdate{ID: "s:b", Members: []dataplane.Member{{Prefix: address}}},
		&dataplane.IPSetUpdate{ID: "p:a", Type: dataplane.IPSetPorts, Members: []dataplane.Member{port}},
		&dataplane.IPSetUpdate{ID: "p:b", Type: dataplane.IPSetPorts, Members: []dataplane.Member{port}},
		&dataplane.PolicyUpdate{Key: key, Policy: &dataplane.Policy{
			Ingress: []dataplane.Rule{rule}, Egress: []dataplane.Rule{rule},
		}},
		&dataplane.EndpointUpdate{
			Key: policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "w"},
			Endpoint: &dataplane.Endpoint{
				Interface: "way0", Addresses: []netip.Addr{address.Addr()}, Ingress: tiers, Egress: tiers,
			},
		},
	}})
	table, errs := r.Table()
	require.Empty(t, errs, rule.String())
	return table.String()
}

// Every field is in the key of an outcome. For a rule that is not plain, the key has all fields.
// For a plain rule, it has the fields of decisions.
func TestFieldsOfOutcomeKeys(t *testing.T) {
	key := func(r dataplane.Rule, plain bool) string {
		var out strings.Builder
		m := match.Merged{Rule: r, IDs: []string{r.ID}}
		m.WriteKey(&out, plain)
		return out.String()
	}
	before := filledRule()
	changes := 0
	for i := range fieldwalk.Changes(reflect.ValueOf(&before).Elem()) {
		after := filledRule()
		c := fieldwalk.Changes(reflect.ValueOf(&after).Elem())[i]
		c.Do()
		if strings.HasSuffix(c.Path, ".Name") { // ports have none: checkRule
			continue
		}
		require.NotEqual(t, key(before, false), key(after, false), c.Path)
		inPlain := slices.ContainsFunc(plainFields[1:], func(f string) bool { return strings.HasPrefix(c.Path, f) })
		if inPlain && c.Path != ".IPVersion" { // the class determines these
			require.NotEqual(t, key(before, true), key(after, true), c.Path)
		}
		changes++
	}
	require.Greater(t, changes, 50)
}

// Neighbours are not merged if they differ in any field other than one list of prefixes or ports.
func TestRulesWithOtherFieldsAreNotMerged(t *testing.T) {
	united := []string{".ID", ".Source.Nets", ".Source.Ports", ".Destination.Nets", ".Destination.Ports"}
	before := filledRule()
	for i := range fieldwalk.Changes(reflect.ValueOf(&before).Elem()) {
		after := filledRule()
		c := fieldwalk.Changes(reflect.ValueOf(&after).Elem())[i]
		c.Do()
		want := 2
		if !strings.HasSuffix(c.Path, " emptied") && slices.ContainsFunc(
			united, func(f string) bool { return strings.HasPrefix(c.Path, f) },
		) {
			want = 1
		}
		require.Len(t, match.Merge([]dataplane.Rule{before, after}), want, c.Path)
	}
}
