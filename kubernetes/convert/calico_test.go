// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

const v3 = "apiVersion: projectcalico.org/v3\n"

func ptr[T any](v T) *T { return &v }

// basePolicy returns the policy to which the GlobalNetworkPolicy of TestCalico is converted.
func basePolicy() *policy.Policy {
	return &policy.Policy{
		Name: "security.base", Tier: "security", Order: ptr(-1.5), Selector: "app == 'web'",
		NamespaceSelector: `env == "prod"`, ServiceAccountSelector: `team == "a"`,
		ApplyOnForward: true, Types: []policy.Type{policy.Ingress, policy.Egress},
		PerformanceHints: []policy.PerformanceHint{policy.AssumeNeededOnEveryNode},
		Ingress: []policy.Rule{{
			Action: policy.Allow, IPVersion: 4, Protocol: policy.ProtocolTCP, NotProtocol: policy.ProtocolUDP,
			Source: policy.EntityRule{
				Nets:     policy.Nets{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.9.9.9/32")},
				NotNets:  policy.Nets{netip.MustParsePrefix("10.1.0.0/24")},
				Selector: "has(a)", NotSelector: "has(b)", NamespaceSelector: "all()",
				NotPorts:        []policy.Port{policy.PortNumber(80), policy.PortRange(90, 99)},
				ServiceAccounts: &policy.ServiceAccounts{Names: []string{"x"}, Selector: "has(y)"},
			},
			Destination: policy.EntityRule{Ports: []policy.Port{
				policy.PortNumber(80), policy.PortRange(8000, 8999),
				policy.PortName("http"), policy.PortNumber(443),
			}},
			Metadata: &policy.RuleMetadata{Annotations: map[string]string{"why": "because"}},
		}},
		Egress: []policy.Rule{
			{
				Action: policy.Log, Protocol: policy.ProtocolICMPv6, HeaderMatch: policy.HeaderMatch{
					ICMP:    &policy.ICMP{Type: ptr(0), Code: ptr(0)},
					NotICMP: &policy.ICMP{Type: ptr(128)},
				},
			},
			{Action: policy.Pass},
		},
	}
}

func TestCalico(t *testing.T) {
	tests := []struct {
		name, text string
		want       policy.Resource
	}{
		{"GlobalNetworkPolicy", `
kind: GlobalNetworkPolicy
metadata: {name: security.base}
spec:
  tier: security
  order: -1.5
  selector: app == 'web'
  namespaceSelector: env == "prod"
  serviceAccountSelector: team == "a"
  types: [ingress, Egress]
  performanceHints: [AssumeNeededOnEveryNode]
  doNotTrack: false
  applyOnForward: true
  ingress:
  - action: Allow
    ipVersion: 4
    protocol: TCP
    notProtocol: 17
    source:
      nets: [10.1.2.3/16, "10.9.9.9"]
      notNets: [10.1.0.0/24]
      selector: has(a)
      notSelector: has(b)
      namespaceSelector: all()
      notPorts: [80, "90:99"]
      serviceAccounts: {names: [x], selector: has(y)}
    destination: {ports: [80, "8000:8999", http, "443"]}
    metadata: {annotations: {why: because}}
  egress:
  - action: Log
    protocol: icmpv6
    icmp: {type: 0, code: 0}
    notICMP: {type: 128}
  - action: Pass
`, basePolicy()},
		{
			"NetworkPolicy", "kind: NetworkPolicy\nmetadata: {name: x, namespace: shop}\nspec: {selector: all()}",
			&policy.Policy{Namespace: "shop", Name: "x", Selector: "all()"},
		},
		{"NetworkPolicy without a namespace", "kind: NetworkPolicy\nmetadata: {name: x}\nspec: {}", // S143
			&policy.Policy{Namespace: "default", Name: "x"}},
		{
			"Tier", "kind: Tier\nmetadata: {name: security}\nspec: {order: 100, defaultAction: Pass}",
			&policy.Tier{Name: "security", Order: ptr(100.0), DefaultAction: policy.Pass},
		},
		{
			"Profile", "kind: Profile\nmetadata: {name: p}\n" +
				"spec: {labelsToApply: {a: b}, ingress: [{action: Deny}], egress: [{action: Allow}]}",
			&policy.Profile{
				Name: "p", LabelsToApply: map[string]string{"a": "b"},
				Ingress: []policy.Rule{{Action: policy.Deny}}, Egress: []policy.Rule{{Action: policy.Allow}},
			},
		},
		{
			"GlobalNetworkSet", "kind: GlobalNetworkSet\nmetadata: {name: s, labels: {a: b}}\n" +
				"spec: {nets: [10.0.0.1, 'fd00::1/64', '::ffff:10.2.3.4/112']}",
			&policy.NetworkSet{Name: "s", Labels: map[string]string{"a": "b"}, Nets: policy.Nets{
				netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("fd00::/64"),
				netip.MustParsePrefix("10.2.0.0/16"),
			}},
		},
		{
			"NetworkSet", "kind: NetworkSet\nmetadata: {name: s, namespace: shop}\nspec: {}",
			&policy.NetworkSet{Namespace: "shop", Name: "s", Labels: map[string]string{
				"pcns.projectcalico.org/name": "shop", "pcns.kubernetes.io/metadata.name": "shop",
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(v3+tt.text))
			require.Empty(t, problems)
			require.Equal(t, []policy.Resource{tt.want}, resources)
		})
	}
}

// An object with an error outside of the rules of a policy is absent. All errors are reported.
func TestInvalidCalicoObjectIsAbsent(t *testing.T) {
	global := func(spec string) string {
		return "kind: GlobalNetworkPolicy\nmetadata: {name: x}\nspec: " + spec
	}
	tests := []struct {
		name, text string
		fields     []string
	}{
		{"no name", "kind: Tier\nspec: {}", []string{"metadata.name"}},
		{"namespace", "kind: Tier\nmetadata: {name: x, namespace: y}\nspec: {}", []string{"metadata.namespace"}},
		{"built-in tier", "kind: Tier\nmetadata: {name: default}\nspec: {order: 5}", []string{"spec.order"}},
		{"default action", "kind: Tier\nmetadata: {name: x}\nspec: {defaultAction: Allow}", []string{
			"spec.defaultAction",
		}},
		{
			"selectors", global(`{selector: "a ==", namespaceSelector: "((", serviceAccountSelector: "x"}`),
			[]string{"spec.selector", "spec.namespaceSelector", "spec.serviceAccountSelector"},
		},
		{"type, hint", global(`{types: [In], performanceHints: [x]}`), []string{
			"spec.types[0]", "spec.performanceHints[0]",
		}},
		{
			"kinds of policy", global("{doNotTrack: true, preDNAT: true, applyOnForward: true, types: [Egress]}"),
			[]string{"spec.preDNAT", "spec.types[0]"},
		},
		{"set", "kind: NetworkSet\nmetadata: {name: x, labels: {pcns.team: a}}\n" +
			"spec: {nets: [10.0.0.0/8, y]}", []string{`metadata.labels["pcns.team"]`, "spec.nets[1]"}},
		{
			"profile", "kind: Profile\nmetadata: {name: x}\n" +
				"spec: {labelsToApply: {projectcalico.org/namespace: y}, egress: [{action: Stop}]}",
			[]string{`spec.labelsToApply["projectcalico.org/namespace"]`, "spec.egress[0].action"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(v3+tt.text))
			require.Empty(t, resources)
			var fields []string
			for _, problem := range problems {
				var wrong *manifest.Error
				require.ErrorAs(t, problem, &wrong)
				fields = append(fields, wrong.Field)
			}
			require.ElementsMatch(t, tt.fields, fields)
		})
	}
}

// S29, S49, S51, S65, S167: only the rule with an error is closed, and all its errors are reported.
// The policy is not absent.
func TestInvalidCalicoRuleIsClosed(t *testing.T) {
	rule := func(r string) string {
		return "kind: GlobalNetworkPolicy\nmetadata: {name: x}\nspec: {ingress: [{action: Allow}, " + r + "]}"
	}
	tests := []struct {
		name, text string
		fields     []string
	}{
		{
			"not supported in rules", rule("{action: Allow, http: {methods: [GET]}}"),
			[]string{"spec.ingress[1].http"},
		},
		{
			"services", rule("{action: Allow, source: {services: {name: a}, nets: [10.0.0.0/8]}, destination: " +
				"{services: {name: b, namespace: c}}}"),
			[]string{
				"spec.ingress[1].source.services.namespace", "spec.ingress[1].source.nets",
				"spec.ingress[1].destination.services",
			},
		},
		{"S29 no action", rule("{}"), []string{"spec.ingress[1].action"}},
		{"case of the action", rule("{action: allow}"), []string{"spec.ingress[1].action"}},
		{"IP version", rule("{action: Deny, ipVersion: 0}"), []string{"spec.ingress[1].ipVersion"}},
		{"protocols", rule("{action: Deny, protocol: tcpp, notProtocol: 256}"), []string{
			"spec.ingress[1].protocol", "spec.ingress[1].notProtocol",
		}},
		{"S65 ICMP", rule("{action: Deny, protocol: ICMP, icmp: {type: 255}}"), []string{"spec.ingress[1].icmp.type"}},
		{"nets", rule("{action: Deny, source: {nets: [10.0.0.0/8, x], notNets: [10.0.0.0/40]}}"), []string{
			"spec.ingress[1].source.nets[1]", "spec.ingress[1].source.notNets[0]",
		}},
		{
			"S49 ports",
			rule(`{action: Deny, protocol: TCP, source: {ports: [0]}, destination: {notPorts: [1, "9:8", 65536, -1]}}`),
			[]string{
				"spec.ingress[1].source.ports[0]", "spec.ingress[1].destination.notPorts[1]",
				"spec.ingress[1].destination.notPorts[2]", "spec.ingress[1].destination.notPorts[3]",
			},
		},
		{"S51 ports without a protocol", rule(`{action: Deny, source: {ports: [80]}}`), []string{
			"spec.ingress[1].source.ports[0]",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(v3+tt.text))
			require.Len(t, resources, 1)
			p := resources[0].(*policy.Policy)
			require.NoError(t, p.Validate())
			require.Len(t, p.Ingress, 2)
			require.Empty(t, p.Ingress[0].Doubts)
			require.Equal(t, policy.Allow, p.Ingress[0].Action)
			var fields, doubts []string
			for _, problem := range problems {
				var wrong *manifest.Error
				require.ErrorAs(t, problem, &wrong)
				fields = append(fields, wrong.Field)
			}
			require.ElementsMatch(t, tt.fields, fields)
			for _, doubt := range p.Ingress[1].Doubts {
				doubts = append(doubts, doubt.Field)
			}
			require.ElementsMatch(t, tt.fields, doubts)
			closed := p.Ingress[1]
			closed.Close()
			require.Equal(t, closed, p.Ingress[1])
			if !strings.Contains(tt.text, ", {action: Allow,") {
				require.Equal(t, policy.Deny, p.Ingress[1].Action)
			}
		})
	}
}

// Convert converts every kind. For an invalid object, it returns no resource, not even a nil
// pointer.
func TestConvertHandlesEveryKind(t *testing.T) {
	for _, object := range []metav1.Object{
		&calico.GlobalNetworkPolicy{}, &calico.NetworkPolicy{}, &calico.Tier{},
		&calico.Profile{}, &calico.GlobalNetworkSet{}, &calico.NetworkSet{},
		&calico.StagedGlobalNetworkPolicy{}, &calico.StagedNetworkPolicy{}, &calico.StagedKubernetesNetworkPolicy{},
		&calico.HostEndpoint{Spec: calico.HostEndpointSpec{Node: "n"}}, &calico.Node{},
		&calico.WorkloadEndpoint{Spec: calico.WorkloadEndpointSpec{Node: "n", InterfaceName: "i"}},
		&calico.IPPool{Spec: calico.IPPoolSpec{CIDR: "10.0.0.0/8"}},
		&corev1.Namespace{}, &corev1.ServiceAccount{}, &corev1.Node{}, &networkingv1.NetworkPolicy{},
		&policyv1alpha2.ClusterNetworkPolicy{Spec: policyv1alpha2.ClusterNetworkPolicySpec{
			Tier: "Admin", Subject: policyv1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
		}},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Labels: map[string]string{"kubernetes.io/service-name": "s"}},
			AddressType: "IPv4",
		},
	} {
		resources, problems := convert.Converter{}.Convert(object)
		require.Empty(t, resources, "%T", object)
		require.NotEmpty(t, problems, "%T", object)
		object.SetName("x")
		resources, problems = convert.Converter{}.Convert(object)
		require.Empty(t, problems, "%T", object)
		require.NotEmpty(t, resources, "%T", object)
	}
}
