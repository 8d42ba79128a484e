// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/fieldwalk"
	"github.com/wayleave/wayleave/policy"
)

func TestComparePolicies(t *testing.T) {
	pol := func(order *float64, namespace, name string) *policy.Policy {
		return &policy.Policy{Order: order, Namespace: namespace, Name: name}
	}
	staged := pol(nil, "", "a")
	staged.Staged = true
	for _, list := range [][]*policy.Policy{
		{pol(ptr(-2.5), "", "z"), pol(ptr(0.5), "", "y"), pol(ptr(10.0), "", "a"), pol(nil, "", "a")}, // S5, S8
		{pol(ptr(10.0), "", "pol-1"), pol(ptr(10.0), "", "pol-2"), pol(ptr(10.0), "", "pol-3")},       // S6
		{pol(ptr(10.0), "", "pol-3"), pol(ptr(30.0), "", "pol-1")},                                    // S7
		{pol(ptr(math.MaxFloat64), "", "z"), pol(nil, "", "a"), pol(nil, "", "b")},                    // S5
		// "a-b//Policy" is before "a//Policy": they are compared as strings, bytewise (S6)
		{pol(nil, "", "a-b"), pol(nil, "", "a")},
		{pol(nil, "n1", "a"), pol(nil, "n2", "a")}, // S6
		{pol(nil, "", "a"), staged},                // "a//Policy" before "a//StagedPolicy"
		{pol(nil, "", "A"), pol(nil, "", "a")},     // bytewise
		{pol(nil, "", "a"), pol(nil, "x", "a")},    // "a//..." before "a/x/..."
	} {
		shuffled := slices.Clone(list)
		slices.Reverse(shuffled)
		slices.SortFunc(shuffled, policy.ComparePolicies)
		require.Equal(t, list, shuffled)
		for _, p := range list {
			require.Zero(t, policy.ComparePolicies(p, p))
		}
	}
	// The tier is ignored.
	a, b := pol(ptr(1.0), "", "a"), pol(ptr(2.0), "", "a")
	a.Tier, b.Tier = "z", "a"
	require.Equal(t, -1, policy.ComparePolicies(a, b))
}

// S9
func TestCompareTiers(t *testing.T) {
	admin, _ := policy.BuiltinTier(policy.KubeAdminTier)
	standard, _ := policy.BuiltinTier(policy.DefaultTier)
	baseline, _ := policy.BuiltinTier(policy.KubeBaselineTier)
	want := []*policy.Tier{
		{Name: "z", Order: ptr(-1.0)},
		{Name: "a", Order: ptr(5.0)},
		{Name: "b", Order: ptr(5.0)},
		admin, standard, baseline,
		{Name: "a2"},
		{Name: "z2"},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, policy.CompareTiers)
	require.Equal(t, want, got)
}

func TestBuiltinTier(t *testing.T) {
	for name, action := range map[string]policy.Action{
		policy.DefaultTier: policy.Deny, policy.KubeAdminTier: policy.Pass, policy.KubeBaselineTier: policy.Pass,
	} {
		tier, ok := policy.BuiltinTier(name)
		require.True(t, ok)
		require.NoError(t, tier.Validate())
		require.Equal(t, action, tier.Action())
		*tier.Order = 0 // the caller may change the result
		again, _ := policy.BuiltinTier(name)
		require.NotZero(t, *again.Order)
	}
	_, ok := policy.BuiltinTier("other")
	require.False(t, ok)
}

func TestTierAction(t *testing.T) {
	require.Equal(t, policy.Deny, (*policy.Tier)(nil).Action()) // S10, S11
	require.Equal(t, policy.Deny, (&policy.Tier{}).Action())
	require.Equal(t, policy.Deny, (&policy.Tier{DefaultAction: policy.Allow}).Action(), "invalid, and closed")
	require.Equal(t, policy.Pass, (&policy.Tier{DefaultAction: policy.Pass}).Action())
}

// S12
func TestAppliesTo(t *testing.T) {
	rules := []policy.Rule{{Action: policy.Allow}}
	for _, c := range []struct {
		types           []policy.Type
		ingress, egress []policy.Rule
		in, out         bool
	}{
		{nil, nil, nil, true, false},
		{nil, rules, nil, true, false},
		{nil, nil, rules, false, true},
		{nil, rules, rules, true, true},
		{[]policy.Type{"Ingress"}, nil, rules, true, false},
		{[]policy.Type{"egress"}, rules, nil, false, true},
		{[]policy.Type{"EGRESS", "iNgress"}, nil, nil, true, true},
		{[]policy.Type{}, nil, rules, false, true},
	} {
		p := &policy.Policy{Types: c.types, Ingress: c.ingress, Egress: c.egress}
		require.Equal(t, c.in, p.AppliesTo(policy.Ingress), "%+v", c)
		require.Equal(t, c.out, p.AppliesTo(policy.Egress), "%+v", c)
		require.False(t, p.AppliesTo("other"))
	}
}

func TestPolicyDefaults(t *testing.T) {
	require.Equal(t, "default", (&policy.Policy{}).TierName())
	require.Equal(t, "x", (&policy.Policy{Tier: "x"}).TierName())
	require.False(t, (&policy.Policy{}).NeededOnEveryNode())
	require.True(t, goodPolicy().NeededOnEveryNode()) // S19
}

func TestRuleIDs(t *testing.T) {
	owner := goodPolicy().Key()
	a, b, c := goodRule(), policy.Rule{Action: policy.Deny}, policy.Rule{Action: policy.Log}
	ids := policy.RuleIDs(owner, policy.Ingress, []policy.Rule{a, b, a, c})
	require.Len(t, ids, 4)
	for i, id := range ids {
		require.Regexp(t, "^[a-z2-7]{24}$", id)
		require.NotContains(t, ids[:i], id)
	}
	// A change, deletion or insertion of a rule does not change the IDs of others.
	edited := policy.RuleIDs(owner, policy.Ingress, []policy.Rule{c, a, {Action: policy.Pass}, a})
	require.Equal(t, []string{ids[3], ids[0], ids[2]}, []string{edited[0], edited[1], edited[3]})
	require.NotContains(t, ids, edited[2])

	// IDs depend on owner and direction, but not on metadata and empty lists.
	require.NotContains(t, ids, policy.RuleIDs(owner, policy.Egress, []policy.Rule{a})[0])
	require.NotContains(t, ids,
		policy.RuleIDs(policy.Key{Kind: policy.KindProfile, Name: "p"}, policy.Ingress, []policy.Rule{a})[0])
	same := b
	same.Metadata = &policy.RuleMetadata{Annotations: map[string]string{"why": "x"}}
	same.Source = policy.EntityRule{Nets: policy.Nets{}, Ports: []policy.Port{}}
	require.Equal(t, ids[1:2], policy.RuleIDs(owner, policy.Ingress, []policy.Rule{same}))
	require.NotNil(t, same.Metadata)

	// The IDs are part of the interface: they do not change between releases.
	require.Equal(t, "4iaagyag46wzpxda5fxuf3id", policy.RuleIDs(owner, policy.Ingress, []policy.Rule{a})[0])
	require.Empty(t, policy.RuleIDs(owner, policy.Ingress, nil))
}

// IDs depend on every field of a rule but metadata and doubts.
func TestRuleIDsAreComplete(t *testing.T) {
	owner := goodPolicy().Key()
	var r policy.Rule
	fieldwalk.Fill(reflect.ValueOf(&r).Elem(), policy.PortRange(80, 90))
	before := policy.RuleIDs(owner, policy.Ingress, []policy.Rule{r})
	for i := range fieldwalk.Changes(reflect.ValueOf(&r).Elem()) {
		p := policy.Clone(&policy.Policy{Ingress: []policy.Rule{r}}).(*policy.Policy)
		c := fieldwalk.Changes(reflect.ValueOf(&p.Ingress[0]).Elem())[i]
		c.Do()
		after := policy.RuleIDs(owner, policy.Ingress, p.Ingress)
		free := strings.HasPrefix(c.Path, ".Metadata") || strings.HasPrefix(c.Path, ".Doubts")
		require.Equal(t, free, before[0] == after[0], c.Path)
	}
}

// IDs depend on services.
func TestRuleIDsOfServices(t *testing.T) {
	owner := goodPolicy().Key()
	rules := []policy.Rule{
		{Action: policy.Deny},
		{
			Action: policy.Allow, IPVersion: 4, Protocol: policy.ProtocolTCP,
			Source: policy.EntityRule{
				Nets: prefixes("10.0.0.0/8"), Selector: "has(app)",
				ServiceAccounts: &policy.ServiceAccounts{Names: []string{"robot"}},
			},
			Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80), policy.PortName("http")}},
		},
		{Action: policy.Log, Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
			NotICMP: &policy.ICMP{Type: ptr(8)},
		}},
		{Action: policy.Deny, Metadata: &policy.RuleMetadata{}},
	}
	ids := policy.RuleIDs(owner, policy.Ingress, rules)
	require.Equal(t, []string{
		"acytakp3mnf6nk2yec5a3osr", "uq2qjkzvhpeq72bnx4s35jdx", "wn4dhyu7tnwvjeb2uphwglan", "thleropbklwktckgdig4bzpr",
	}, ids)

	for _, e := range []policy.EntityRule{
		{Services: &policy.ServiceMatch{Name: "web"}},
		{Services: &policy.ServiceMatch{Name: "web", Namespace: "shop"}},
		{Services: &policy.ServiceMatch{}},
	} {
		require.False(t, e.IsZero(), "a service limits a rule")
		id := policy.RuleIDs(owner, policy.Ingress, []policy.Rule{{Action: policy.Deny, Source: e}})[0]
		require.NotContains(t, ids, id)
		ids = append(ids, id)
	}
}

func TestNetworkDefaults(t *testing.T) {
	for mode, want := range map[policy.EncapMode]bool{
		"": false, policy.EncapNever: false, policy.EncapAlways: true, policy.EncapCrossSubnet: true, "always": false,
	} {
		require.Equal(t, want, mode.Encapsulates(), mode)
	}
	require.Equal(t, policy.ServiceMatch{Name: "web", Namespace: "shop"}, policy.ServiceMatch{Name: "web"}.In("shop"))
	require.Equal(t, policy.ServiceMatch{Name: "web", Namespace: "own"},
		policy.ServiceMatch{Name: "web", Namespace: "own"}.In("shop"))
}

// FindRule returns the direction and the index of each rule by its ID.
func TestFindRule(t *testing.T) {
	same := policy.Rule{Action: policy.Allow, Protocol: policy.ProtocolTCP}
	p := &policy.Policy{
		Name: "p", Ingress: []policy.Rule{{Action: policy.Deny}, same, same}, Egress: []policy.Rule{same},
	}
	for dir, rules := range map[policy.Type][]policy.Rule{policy.Ingress: p.Ingress, policy.Egress: p.Egress} {
		for want, id := range policy.RuleIDs(p.Key(), dir, rules) {
			gotDir, got, ok := p.FindRule(id)
			require.True(t, ok)
			require.Equal(t, dir, gotDir)
			require.Equal(t, want, got)
		}
	}
	_, _, ok := p.FindRule("none")
	require.False(t, ok)
}
