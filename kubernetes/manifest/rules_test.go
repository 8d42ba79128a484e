// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

// onePolicy returns the only resource, a policy, and the errors.
func onePolicy(t *testing.T, text string) (*policy.Policy, []error) {
	t.Helper()
	resources, problems := manifest.Decode("f", []byte(text))
	require.Len(t, resources, 1, texts(problems))
	p, ok := resources[0].(*policy.Policy)
	require.True(t, ok)
	return p, problems
}

// effective returns the rules except closed Allow rules, which match nothing.
func effective(rules []policy.Rule) (out []policy.Rule) {
	for _, r := range rules {
		if r.Action != policy.Allow || len(r.Doubts) == 0 {
			out = append(out, r)
		}
	}
	return out
}

// badEntries has rules without an action that have one error, and the field of the error.
var badEntries = []struct{ name, rule, field string }{
	{"null for a peer", "PEERS: [null]", ".PEERS[0]"},
	{"null beside a good peer", "PEERS: [{namespaces: {}}, null]", ".PEERS[1]"},
	{
		"null in a list of a peer", "PEERS: [{namespaces: {matchExpressions: [null]}}]",
		".PEERS[0].namespaces.matchExpressions[0]",
	},
	{"null for a network", "PEERS: [{networks: [null, 10.0.0.0/8]}]", ".PEERS[0].networks[0]"},
	{"null for a port", "PEERS: [{namespaces: {}}], PORTS: [null]", ".PORTS[0]"},
	{"a key given twice", "PEERS: [{namespaces: {}}], PEERS: []", ".PEERS"},
	{"a key given twice in a peer", "PEERS: [{namespaces: {}, namespaces: {}}]", ".PEERS[0].namespaces"},
	{"merge key", "PEERS: [{namespaces: {<<: {}}}]", ".PEERS[0].namespaces"},
	{"merge key in the rule", "PEERS: [{namespaces: {}}], <<: {}", ""},
	{"a key that is no word", "PEERS: [{[a]: b}]", ".PEERS[0]"},
	{"infinity", "PEERS: [{namespaces: {}}], PORTS: [{port: .inf}]", ".PORTS[0].port"},
	{"tag", "PEERS: [{namespaces: {matchLabels: {a: !!binary aGk=}}}]", ".PEERS[0].namespaces.matchLabels.a"},
	{"deep", "PEERS: " + strings.Repeat("[", 99) + strings.Repeat("]", 99), ".PEERS" + strings.Repeat("[0]", 97)},
	{"text for a list", "PEERS: x", ".PEERS"},
}

// One invalid entry closes its rule: an allowing rule is left out. S136, S154, S155
func TestInvalidEntryClosesRule(t *testing.T) {
	for _, tt := range badEntries {
		for direction, peers := range map[string]string{"ingress": "from", "egress": "to"} {
			t.Run(tt.name+" "+direction, func(t *testing.T) {
				rule, field := strings.ReplaceAll(tt.rule, "PEERS", peers), strings.ReplaceAll(tt.field, "PEERS", peers)
				np := "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\n" +
					"spec: {podSelector: {}, DIRECTION: [{ports: [{port: 1}]}, {RULE}]}\n"
				p, problems := onePolicy(t, strings.NewReplacer("DIRECTION", direction, "RULE",
					strings.NewReplacer("PORTS", "ports", "namespaces", "podSelector").Replace(rule)).Replace(np))
				wrong := fieldsOf(t, problems)
				require.Contains(t, wrong, "spec."+direction+"[1]"+
					strings.NewReplacer("PORTS", "ports", "namespaces", "podSelector").Replace(field))
				require.Len(t, effective(append(p.Ingress, p.Egress...)), 1)
				require.ErrorContains(t, p.Doubts(), wrong[0], "the error, not the rule that replaces it")
				require.Contains(t, p.Types, policy.Ingress)

				for action, want := range map[string][]policy.Action{
					"Accept": {"Deny"}, "Deny": {"Deny", "Deny"}, "Pass": {"Deny", "Deny"}, "": {"Deny", "Deny"},
				} {
					name := "protocols"
					head := "{action: " + action + ", "
					if action == "" {
						head = "{"
					}
					rules := "[" + head + strings.ReplaceAll(rule, "PORTS", name) + "}, {action: Deny, " + peers +
						": [{namespaces: {}}]}]"
					p, problems := onePolicy(t, cluster(direction+": "+rules))
					wrong := fieldsOf(t, problems)
					require.Contains(t, wrong, "spec."+direction+"[0]"+strings.ReplaceAll(field, "PORTS", name))
					if action == "" {
						require.Contains(t, wrong, "spec."+direction+"[0].action", "the missing action, too")
					}
					var got []policy.Action
					for _, r := range effective(append(p.Ingress, p.Egress...)) {
						got = append(got, r.Action)
					}
					require.Equal(t, want, got, action)
					if len(want) == 2 {
						first := append(p.Ingress, p.Egress...)[0]
						require.Equal(t, policy.EntityRule{}, first.Source, "everything is denied")
						require.Equal(t, policy.EntityRule{}, first.Destination)
						require.Contains(t, first.Metadata.Annotations, convert.AnnotationFailClosed)
					}
				}
			})
		}
	}
}

// cluster returns a ClusterNetworkPolicy over all pods.
func cluster(rules string) string {
	return "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: a}\n" +
		"spec: {tier: Admin, priority: 1, subject: {namespaces: {}}, " + rules + "}\n"
}

func fieldsOf(t *testing.T, problems []error) []string {
	t.Helper()
	var list []string
	for _, problem := range problems {
		var wrong *manifest.Error
		require.ErrorAs(t, problem, &wrong)
		list = append(list, wrong.Field)
	}
	return list
}

// Rules, lists of rules and actions that cannot be read deny everything.
func TestUnreadableRulesDeny(t *testing.T) {
	const (
		good   = "{action: Deny, from: [{namespaces: {}}]}"
		closed = "everything"
	)
	tests := []struct {
		name, rules, fields string
		want                []string // the actions, "everything" for a rule without matches
	}{
		{"null", "ingress: [null, " + good + "]", "spec.ingress[0]", []string{closed, "Deny"}},
		{"text", "ingress: [x, " + good + "]", "spec.ingress[0]", []string{closed, "Deny"}},
		{"list", "ingress: [[], " + good + "]", "spec.ingress[0]", []string{closed, "Deny"}},
		{"direction null", "ingress: null", "spec.ingress", []string{closed}},
		{"direction text", "ingress: x", "spec.ingress", []string{closed}},
		{"direction given twice", "ingress: [" + good + "], ingress: []", "spec.ingress", []string{closed}},
		{"action given twice", "ingress: [{action: Accept, action: Deny, from: " +
			"[{namespaces: {}}]}]", "spec.ingress[0].action", []string{closed}},
		{"action null", "ingress: [{action: null, from: [{namespaces: {}}]}]", "spec.ingress[0].action", []string{
			closed,
		}},
		{
			"action that is no text", "ingress: [{action: [], from: [{namespaces: {}}]}]", "spec.ingress[0].action",
			[]string{closed},
		},
		{"action unknown", "ingress: [{action: Allow, from: [{namespaces: {}}]}]", "spec.ingress[0].action", []string{
			closed,
		}},
		{"action unknown beside another thing", "ingress: [{action: Allow, from: [null]}]", "spec.ingress[0].from[0] " +
			"spec.ingress[0].action", []string{closed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, problems := onePolicy(t, cluster(tt.rules))
			require.Equal(t, tt.fields, strings.Join(fieldsOf(t, problems), " "))
			var got []string
			for _, r := range p.Ingress {
				if r.Source.Selector == "" {
					require.Equal(t, policy.Deny, r.Action)
					got = append(got, closed)
				} else {
					got = append(got, string(r.Action))
				}
			}
			require.Equal(t, tt.want, got)
			require.Equal(t, []policy.Type{policy.Ingress}, p.Types)
		})
	}
	for rules, fields := range map[string]string{
		"ingress: [null]": "spec.ingress[0]", "ingress: [x]": "spec.ingress[0]", "ingress: {}": "spec.ingress",
		"ingress: [], ingress: [{}]": "spec.ingress", "ingress: [{}], egress: x": "spec.egress",
		"egress: [null]": "spec.egress[0]", "ingress: null, egress: null": "",
	} {
		p, problems := onePolicy(t, "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\n"+
			"spec: {podSelector: {}, "+rules+"}\n")
		require.Equal(t, fields, strings.Join(fieldsOf(t, problems), " "), rules)
		require.Contains(t, p.Types, policy.Ingress)
		require.Equal(t, strings.Contains(fields, "egress"), len(p.Types) == 2, "rules that cannot be read are rules")
		require.Len(t, effective(p.Ingress), strings.Count(rules, "[{}], egress"))
		require.Empty(t, effective(p.Egress))
	}
}

// If an entry outside of the rules is invalid, the object is refused, and errors of the rules are
// reported, too.
func TestInvalidEntryOutsideRulesRefusesObject(t *testing.T) {
	resources, problems := manifest.Decode("f", []byte("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"+
		"metadata: {name: a}\nspec: {podSelector: {a: b, a: c}, ingress: [null]}\n"))
	require.Empty(t, resources)
	require.Equal(t, "spec.podSelector.a spec.ingress[0]", strings.Join(fieldsOf(t, problems), " "))
}

// A rule whose aliases expand to too many values is closed like any other invalid rule.
func TestTooManyAliasesCloseRule(t *testing.T) {
	p, problems := onePolicy(t, "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"+
		"metadata: {name: a, annotations: {x: &x "+strings.Repeat("y", 10_000)+"}}\n"+
		"spec: {podSelector: {}, ingress: [{ports: [{port: 1}]}, {from: [{podSelector: {matchExpressions: [{key: a, "+
		"operator: In, values: ["+
		strings.TrimSuffix(strings.Repeat("*x, ", 1_000), ", ")+"]}]}}]}]}\n")
	require.Len(t, effective(p.Ingress), 1)
	require.Len(t, problems, 1)
	require.ErrorContains(t, problems[0], "spec.ingress[1].from[0].podSelector.matchExpressions[0].values[")
	require.ErrorContains(t, problems[0], "aliases")
}

// If two nodes claim a block, both nodes are read, and the first one has the block.
func TestFirstNodeHasSharedBlock(t *testing.T) {
	node := func(i int) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: n%d}\nspec: {podCIDRs: [10.1.0.0/24, "+
			"10.2.%d.0/24]}\nstatus: {addresses: [{type: InternalIP, address: 10.0.0.%d}]}\n---\n", i, i, i)
	}
	reader := manifest.Reader{Converter: convert.Converter{PodCIDRs: true}}
	resources, problems := reader.Decode("f", []byte(node(1)+node(2)+node(2)))
	require.Equal(t, []string{
		"Node/n1", "NetworkSet/knode.n1", "Block/10.1.0.0/24", "Block/10.2.1.0/24", "Node/n2", "NetworkSet/knode.n2",
		"Block/10.2.2.0/24",
	}, keys(resources))
	require.Equal(t,
		"f: document 2: line 7: Node n2: given more than once: block 10.1.0.0/24: first at f line 1\n"+
			"f: document 3: line 13: Node n2: given more than once: first at f line 7", texts(problems))
	block, ok := resources[2].(*policy.Block)
	require.True(t, ok)
	require.Equal(t, &policy.Block{CIDR: netip.MustParsePrefix("10.1.0.0/24"), Node: "n1"}, block)
}
