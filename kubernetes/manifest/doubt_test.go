// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

// S167: only the rule of a Calico policy that does not decode is closed, and has the errors as its
// doubts.
func TestUndecodableCalicoRuleIsClosed(t *testing.T) {
	for _, tt := range []struct{ name, rule, fields string }{
		{"unknown field", "{action: ACTION, sorce: {nets: [10.0.0.0/8]}}", "spec.ingress[1].sorce"},
		{"unknown field inside", "{action: ACTION, source: {net: [10.0.0.0/8]}}", "spec.ingress[1].source.net"},
		{
			"text for a list", "{action: ACTION, protocol: TCP, destination: {ports: 80}}",
			"spec.ingress[1].destination.ports",
		},
		{"text for a number", "{action: ACTION, ipVersion: '4'}", "spec.ingress[1].ipVersion"},
		{"null", "{action: ACTION, source: {selector: }}", "spec.ingress[1].source.selector"},
		{"key given twice", "{action: ACTION, protocol: TCP, protocol: UDP}", "spec.ingress[1].protocol"},
		{
			"port out of range", "{action: ACTION, protocol: TCP, destination: {ports: [80, 99999]}}",
			"spec.ingress[1].destination.ports[1]",
		},
		{
			"several", "{action: ACTION, ports: [80], source: {net: x}}",
			"spec.ingress[1].ports spec.ingress[1].source.net",
		},
	} {
		for _, kind := range []string{
			"GlobalNetworkPolicy", "NetworkPolicy", "StagedGlobalNetworkPolicy", "StagedNetworkPolicy",
		} {
			for action, want := range map[string]policy.Action{
				"Allow": policy.Allow, "Log": policy.Log, "Deny": policy.Deny, "Pass": policy.Deny,
				"Permit": policy.Deny, "[]": policy.Deny,
			} {
				t.Run(tt.name+" "+kind+" "+action, func(t *testing.T) {
					p, problems := onePolicy(t, "apiVersion: projectcalico.org/v3\nkind: "+kind+
						"\nmetadata: {name: a}\n"+
						"spec: {ingress: [{action: Pass}, "+strings.ReplaceAll(tt.rule, "ACTION", action)+
						", {action: Allow}]}\n")
					require.NoError(t, p.Validate())
					require.Len(t, p.Ingress, 3)
					require.Empty(t, p.Ingress[0].Doubts)
					require.Empty(t, p.Ingress[2].Doubts)
					closed := p.Ingress[1]
					require.Equal(t, want, closed.Action)
					var doubts []string
					for _, doubt := range closed.Doubts {
						doubts = append(doubts, doubt.Field)
					}
					wanted := strings.Fields(tt.fields)
					switch action {
					case "Permit":
						wanted = append(wanted, "spec.ingress[1].action")
					case "[]": // unknown fields are not reported
						wanted = []string{"spec.ingress[1].action"}
					}
					for _, field := range wanted {
						require.Contains(t, doubts, field)
						require.Contains(t, fieldsOf(t, problems), field)
					}
				})
			}
		}
	}
}

// S167: if the rules of a direction cannot be read, the direction denies everything. If the scope
// cannot be read, the policy is absent.
func TestUnreadableCalicoRulesDeny(t *testing.T) {
	gnp := func(spec string) string {
		return "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {name: a}\nspec: {" + spec +
			"}\n"
	}
	for spec, field := range map[string]string{
		"ingress: null": "spec.ingress", "ingress: {}": "spec.ingress", "ingress: [null]": "spec.ingress[0]",
		"ingress: [Deny]": "spec.ingress[0]", "ingress: [{action: Allow}], ingress: []": "spec.ingress",
		"ingress: [{action: Allow, action: Deny}]": "spec.ingress[0].action",
	} {
		p, problems := onePolicy(t, gnp(spec))
		require.Equal(t, []string{field}, fieldsOf(t, problems), spec)
		require.Len(t, p.Ingress, 1)
		require.Equal(t, policy.Deny, p.Ingress[0].Action)
		require.ErrorContains(t, p.Doubts(), field+": ")
		require.Empty(t, p.Egress)
	}
	for _, spec := range []string{
		"selector: null, ingress: [{action: Deny}]", "tiers: x, ingress: [{action: Deny, x: y}]", "order: x",
		"types: Ingress",
	} {
		resources, problems := manifest.Decode("f", []byte(gnp(spec)))
		require.Empty(t, resources, spec)
		require.NotEmpty(t, problems)
	}
}

// S167: a rule of a NetworkPolicy with a field of other kinds is closed. The other rules apply.
func TestRuleWithFieldOfOtherKindIsClosed(t *testing.T) {
	for kind, version := range map[string]string{
		"NetworkPolicy": "networking.k8s.io/v1", "StagedKubernetesNetworkPolicy": "projectcalico.org/v3",
	} {
		for _, direction := range []string{"ingress", "egress"} {
			for _, field := range []string{"name", "action"} {
				t.Run(kind+" "+direction+" "+field, func(t *testing.T) {
					p, problems := onePolicy(t, "apiVersion: "+version+"\nkind: "+kind+
						"\nmetadata: {name: a, namespace: n}\n"+
						"spec: {podSelector: {}, "+direction+": [{"+field+": Allow}, {}]}\n")
					at := "spec." + direction + "[0]." + field
					require.Equal(t, []string{at}, fieldsOf(t, problems))
					rules := append(p.Ingress, p.Egress...)
					require.Len(t, rules, 2)
					require.Equal(t, []policy.Problem{{Field: at, Msg: "unknown field"}}, rules[0].Doubts)
					require.Empty(t, rules[1].Doubts)
				})
			}
		}
	}
}
