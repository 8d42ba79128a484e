// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// editWorld is two policies of one endpoint.
type editWorld struct {
	stage match.Stage
	rules [2][]dataplane.Rule
}

func editKey(i int) policy.Key { return policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprint(i)} }

// set sets both policies, the last one first.
func (w editWorld) set(l *Lookups) {
	for _, i := range []int{1, 0} {
		p := &dataplane.Policy{Ingress: w.rules[i], Untracked: w.stage == match.StageRaw}
		l.SetPolicy(&match.Owner{Key: editKey(i), Policy: p})
	}
}

// joinIngress adds an endpoint with policies of one tier.
func joinIngress(l *Lookups, user any, stage match.Stage, policies ...policy.Key) *Group {
	return l.Join(user, Policy{
		List: match.List{Dir: match.Ingress, Stage: stage}, Rest: policy.Deny,
		Tiers: []dataplane.TierPolicies{{Tier: "t", DefaultAction: policy.Deny, Policies: policies}},
	})
}

func editRule(a policy.Action, peer string, ports ...policy.Port) dataplane.Rule {
	r := dataplane.Rule{ID: fmt.Sprint(a, peer, ports), Action: a}
	r.Source.Nets = []netip.Prefix{netip.MustParsePrefix(peer)}
	if r.Destination.Ports = ports; len(ports) > 0 {
		r.Protocol = policy.ProtocolTCP
	}
	return r
}

// Two classes with one outcome get different outcomes if an edit of a policy affects only one of
// them.
func TestEditSeparatesClasses(t *testing.T) {
	http, https := policy.PortNumber(80), policy.PortNumber(443)
	const all, some, others = "10.0.0.0/8", "10.0.1.0/24", "10.9.0.0/16"
	hides := [2][]dataplane.Rule{{editRule(policy.Pass, all), editRule(policy.Allow, some, http)}}
	shows := [2][]dataplane.Rule{{editRule(policy.Pass, all, https), editRule(policy.Allow, some, http)}}
	for name, c := range map[string]struct{ before, after editWorld }{
		"a rule no longer hides a later one": {editWorld{match.StageRaw, hides}, editWorld{match.StageRaw, shows}},
		"a rule hides a later one":           {editWorld{match.StageRaw, shows}, editWorld{match.StageRaw, hides}},
		"the other policy gets another peer": {
			editWorld{rules: [2][]dataplane.Rule{{editRule(policy.Allow, all, http)}, {editRule(policy.Deny, others)}}},
			editWorld{rules: [2][]dataplane.Rule{{editRule(policy.Allow, all, https)}, {editRule(policy.Deny, some)}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // The order of a map is random.
				l := newTestLookups(false)
				for i, peer := range []string{all, some, others} { // in use before and after
					p := &dataplane.Policy{Ingress: []dataplane.Rule{editRule(policy.Allow, peer)}}
					l.SetPolicy(&match.Owner{Key: editKey(2 + i), Policy: p})
					joinIngress(l, i, match.StageNormal, editKey(2+i))
				}
				c.before.set(l)
				g := joinIngress(l, "edited", c.before.stage, editKey(0), editKey(1))
				l.Update()
				c.after.set(l)
				l.Update()
				require.NoError(t, g.Err())
				require.GreaterOrEqual(t, len(g.classes), 2)
				for class, state := range g.classes {
					var keys outcomeKeys
					l.outcomes.steps(g, class, &keys)
					require.Equal(t, keys.id(class.Family()), state.outcome.Content())
					require.Equal(t, keys.rules.String(), state.outcome.key)
				}
			}
		})
	}
}

// An edit of a policy that many groups have allocates little for each of them.
func TestEditCostsLittleForEachGroup(t *testing.T) {
	allocations := func(groups int) float64 {
		l := newTestLookups(false)
		port := uint16(0)
		edit := func() {
			port++
			r := editRule(policy.Allow, "10.0.0.0/8", policy.PortNumber(port))
			l.SetPolicy(&match.Owner{Key: editKey(0), Policy: &dataplane.Policy{Ingress: []dataplane.Rule{r}}})
			l.Update()
			l.Flush(&ruleset.Delta{})
		}
		for i := range groups {
			l.SetPolicy(&match.Owner{Key: editKey(1 + i), Policy: &dataplane.Policy{}})
			l.Join(i, Policy{
				List: match.List{Dir: match.Ingress}, Rest: policy.Deny, Return: true,
				Tiers: []dataplane.TierPolicies{{
					Tier: "t", DefaultAction: policy.Deny, Policies: []policy.Key{editKey(1 + i), editKey(0)},
				}},
			})
		}
		edit()
		return testing.AllocsPerRun(20, edit)
	}
	few, many := allocations(10), allocations(110)
	require.Less(t, (many-few)/100, 12.0, "allocations for each group")
}
