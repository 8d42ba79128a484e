// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	"go.yaml.in/yaml/v3"
)

// A dump of every kind is read unchanged, as YAML and as JSON.
func TestDumpOfEveryKindIsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/cluster.yaml")
	require.NoError(t, err)
	resources, problems := manifest.Decode("cluster.yaml", data)
	require.Equal(t, "cluster.yaml: document 1: line 100: Service shop/web: items[7]: ignored: the EndpointSlices of "+
		"a service have its backends", texts(problems))
	require.ErrorIs(t, problems[0], convert.ErrIgnored)
	require.Equal(t, []string{
		"Profile/kns.shop", "Profile/ksa.shop.robot", "WorkloadEndpoint/shop/web-0", "Node/n1", "NetworkSet/knode.n1",
		"ServiceBackends/shop/web-abcde", "Policy/shop/knp.default.web", "Policy/kcnp.guard", "Tier/security",
		"Tier/default", "Policy/security.hosts", "Policy/shop/security.web", "StagedPolicy/security.next",
		"StagedPolicy/shop/security.next", "StagedPolicy/shop/knp.default.web", "Profile/hosts", "NetworkSet/admins",
		"NetworkSet/shop/partners", "HostEndpoint/n1-eth0", "WorkloadEndpoint/shop/n1-vm-a-eth0",
		"IPPool/default-ipv4-ippool", "Node/n2", "NetworkSet/knode.n2",
	}, keys(resources))

	var value any
	require.NoError(t, yaml.Unmarshal(data, &value))
	data, err = json.MarshalIndent(value, "", "\t")
	require.NoError(t, err)
	again, problems := manifest.Decode("cluster.json", data)
	require.Len(t, problems, 1)
	require.Len(t, again, len(resources))
	for i := range resources {
		require.True(t, policy.Equal(resources[i], again[i]), "%s", resources[i].Key())
	}
}

// Settings of the converter are used: pod CIDRs are converted to blocks.
func TestPodCIDRsAreConvertedToBlocks(t *testing.T) {
	data, err := os.ReadFile("testdata/cluster.yaml")
	require.NoError(t, err)
	resources, _ := manifest.Reader{Converter: convert.Converter{PodCIDRs: true}}.Decode("cluster.yaml", data)
	require.Contains(t, keys(resources), "Block/10.0.0.0/24")
}

// A rule of a NetworkPolicy that does not decode matches nothing. The policy still isolates its
// pods. S136
func TestUndecodableRuleMatchesNothing(t *testing.T) {
	const head = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec:\n" +
		"  podSelector: {}\n"
	tests := []struct{ name, rules, errors string }{
		{
			"port that is no port", "  ingress:\n  - ports: [{port: 99999999999}]\n  - {}\n",
			"f: document 1: line 7: NetworkPolicy a: spec.ingress[0].ports[0].port: want a whole number of at most " +
				"32 bits, not number 99999999999",
		},
		{
			"field of a newer API", "  ingress:\n  - form: []\n  - {}\n",
			"f: document 1: line 7: NetworkPolicy a: spec.ingress[0].form: unknown field",
		},
		{
			"several", "  ingress:\n  - {form: [], ports: [{port: true}]}\n  - from: {}\n  - {}\n",
			"f: document 1: line 7: NetworkPolicy a: spec.ingress[0].ports[0].port: want a whole number of at most " +
				"32 bits, not bool\n" +
				"f: document 1: line 8: NetworkPolicy a: spec.ingress[1].from: want a list, not object",
		},
		{
			"and one that decodes and is wrong", "  ingress:\n  - form: []\n  - from: [{}]\n  - {}\n",
			"f: document 1: line 7: NetworkPolicy a: spec.ingress[0].form: unknown field\n" +
				"f: document 1: line 8: NetworkPolicy default/a: spec.ingress[1].from[0]: an empty peer: want " +
				"podSelector, namespaceSelector or ipBlock",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("f", []byte(head+tt.rules))
			require.Equal(t, tt.errors, texts(problems))
			require.Len(t, resources, 1)
			p, ok := resources[0].(*policy.Policy)
			require.True(t, ok)
			require.Equal(t, []policy.Type{policy.Ingress}, p.Types)
			require.Len(t, effective(p.Ingress), 1, "the valid rule")
		})
	}
}

// The number of reported problems is limited if many rules do not decode.
func TestProblemsOfRulesAreLimited(t *testing.T) {
	text := "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec:\n  podSelector: {}\n" +
		"  ingress:\n" + strings.Repeat("  - {form: []}\n", 5_000)
	resources, problems := manifest.Decode("f", []byte(text))
	require.Equal(t, []string{"Policy/default/knp.default.a"}, keys(resources))
	require.Len(t, problems, 101)
	require.ErrorContains(t, problems[100], "more problems")
}

// A policy whose egress rules do not decode still applies to egress.
func TestUndecodableEgressRuleKeepsType(t *testing.T) {
	resources, problems := manifest.Decode("f", []byte("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"+
		"metadata: {name: a}\nspec: {podSelector: {}, egress: [{ports: x}]}\n"))
	require.Len(t, problems, 1)
	p, ok := resources[0].(*policy.Policy)
	require.True(t, ok)
	require.Equal(t, []policy.Type{policy.Ingress, policy.Egress}, p.Types)
	require.Empty(t, effective(p.Egress))
}

// If the rest of the object has errors, too, it is refused, and all errors are reported.
func TestInvalidObjectReportsErrorsOfRules(t *testing.T) {
	resources, problems := manifest.Decode("f",
		[]byte("apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: a}\n"+
			"spec:\n  tier: Admin\n  priorty: 1\n  subject: {namespaces: {}}\n  egress:\n"+
			"  - {action: Deny, to: [{moons: {}}]}\n"))
	require.Empty(t, resources)
	require.Equal(t, "f: document 1: line 9: ClusterNetworkPolicy a: spec.egress[0].to[0].moons: unknown field\n"+
		"f: document 1: line 4: ClusterNetworkPolicy a: spec.priority: required\n"+
		"f: document 1: line 6: ClusterNetworkPolicy a: spec.priorty: unknown field", texts(problems))
}

// If Kubernetes and Calico have a node of the same name, the first one is used, and the second one
// is reported.
func TestDuplicateNodeIsReported(t *testing.T) {
	resources, problems := manifest.Decode("f", []byte("apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\n"+
		"apiVersion: projectcalico.org/v3\nkind: Node\nmetadata: {name: a}\n"+
		"spec: {addresses: [{address: 10.0.0.1}]}\n"))
	require.Equal(t, []string{"Node/a", "NetworkSet/knode.a"}, keys(resources))
	require.Len(t, problems, 1)
	require.ErrorIs(t, problems[0], manifest.ErrDuplicate)
}
