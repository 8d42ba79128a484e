// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// withAction returns the rule with another action.
func withAction(a policy.Action, r policy.Rule) policy.Rule {
	r.Action = a
	return r
}

// S29, S49, S51, S65, S167: a rule in doubt matches nothing if it is Allow or Log. Otherwise it
// denies everything, at its place in the list. All other rules apply.
func TestRuleInDoubt(t *testing.T) {
	ports := policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80), {}}}
	for name, c := range map[string]struct {
		rule  policy.Rule
		field string
	}{
		"S49 port 0": {allowTo(policy.ProtocolTCP, ports), "destination.ports[1]"},
		"S65 ICMP type 255": {policy.Rule{Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
			ICMP: icmp(255),
		}}, "icmp.type"},
		"bad selector": {allowFrom(policy.EntityRule{Selector: "a =="}), "source.selector"},
		"S51 port without protocol": {
			allowTo(0, policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80)}}), "destination.ports[0]",
		},
	} {
		for action, closed := range map[policy.Action]bool{
			policy.Allow: false, policy.Log: false, policy.Deny: true, policy.Pass: true, "": true, "Alow": true,
		} {
			t.Run(name+" "+string(action), func(t *testing.T) {
				p := ingress("p",
					allowTo(policy.ProtocolTCP, policy.EntityRule{Ports: []policy.Port{policy.PortNumber(443)}}),
					withAction(action, c.rule), allowTo(policy.ProtocolTCP, policy.EntityRule{}))
				e := verdict.New(worldOf(wep("n/web", "10.0.0.1", "app=web"), p))
				require.Empty(t, e.Rejected())
				require.ErrorContains(t, e.Doubts()[p.Key()], "ingress[1]."+c.field)
				require.Equal(t, verdict.Allow, e.Evaluate(flowOf(t, "tcp 203.0.113.7 10.0.0.1:443")).Ingress,
					"a rule before it")
				require.Equal(t, verdict.Deny, e.Evaluate(flowOf(t, "udp 203.0.113.7 10.0.0.1:80")).Ingress)
				x := e.Explain(flowOf(t, in80))
				want := verdict.Allow // by the rule after the closed one
				if closed {
					want = verdict.Deny
				}
				require.Equal(t, want, x.Result.Ingress)
				step := x.Ingress.Tiers[0].Policies[0].Rules[1]
				require.Equal(t, "ingress[1]."+c.field, step.Doubts[len(step.Doubts)-1].Field)
				require.Equal(t, closed, step.Mismatch == nil)
				require.Equal(t, closed, len(x.Ingress.Decision.Doubts) > 0)
			})
		}
	}
}

// S167: the explanation has the rule and its doubt.
func TestExplainDoubt(t *testing.T) {
	bad := policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80), {}}}
	w := worldOf(wep("n/web", "10.0.0.1", "app=web"), ingress("p",
		allowTo(policy.ProtocolTCP, bad), log(), withAction(policy.Deny, allowTo(policy.ProtocolTCP, bad)), allow()))
	golden(t, "doubt.txt", verdict.Explain(w, flowOf(t, in80)).String())
}

// S167: a rule in doubt affects the default of types (S12) and the end of the tier (S26, S27) like
// any other rule.
func TestRuleInDoubtAffectsTypesAndTiers(t *testing.T) {
	bad := allowFrom(policy.EntityRule{Selector: "a =="})
	run(t, []scenario{
		{"S12 egress rules alone, so the profile decides ingress", []policy.Resource{
			wep("n/web", "10.0.0.1", "app=web", "open"), profile("open", "", allow()),
			&policy.Policy{Name: "p", Egress: []policy.Rule{withAction(policy.Deny, bad)}},
		}, []string{in80 + " = Allow"}},
		{"S26 the tier ends in Deny", []policy.Resource{
			wep("n/web", "10.0.0.1", "app=web", "open"), profile("open", "", allow()), ingress("p", bad),
		}, []string{in80 + " = Deny"}},
		{"S20 a staged policy decides nothing", []policy.Resource{
			wep("n/web", "10.0.0.1", "app=web", "open"), profile("open", "", allow()),
			staged(ingress("p", withAction(policy.Deny, bad))),
		}, []string{in80 + " = Allow"}},
	})
}
