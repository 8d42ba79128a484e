// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// nodes has two nodes. The first has the address of the host-networked pod of the test cluster.
const nodes = `
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: east}}
status:
  addresses:
  - {type: Hostname, address: n1}
  - {type: InternalIP, address: 10.9.0.1}
  - {type: ExternalIP, address: 192.0.2.1}
  - {type: InternalIP, address: "fd00:9::1"}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {zone: west}}
status: {addresses: [{type: InternalIP, address: 10.9.0.2}]}
---
`

const (
	nodeOut, node6, node2 = "192.0.2.1", "fd00:9::1", "10.9.0.2"
	isolateWeb            = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n" +
		"metadata: {name: test, namespace: shop}\n" +
		"spec: {podSelector: {matchLabels: {app: web}}, " +
		"ingress: [{from: [{podSelector: {matchLabels: {app: cart}}}]}]}\n---\n"
)

// cnp returns a ClusterNetworkPolicy over all pods.
func cnp(name, tier string, priority int, rules string) string {
	return cnpFor(name, tier, priority, "{namespaces: {}}", rules)
}

func cnpFor(name, tier string, priority int, subject, rules string) string {
	return fmt.Sprintf("apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\n"+
		"metadata: {name: %s}\n"+
		"spec: {tier: %s, priority: %d, subject: %s, %s}\n---\n", name, tier, priority, subject, rules)
}

// from and to return one rule.
func from(action, peer, rest string) string {
	return "{action: " + action + ", from: [" + peer + "]" + rest + "}"
}

func to(action, peer, rest string) string {
	return "{action: " + action + ", to: [" + peer + "]" + rest + "}"
}

const (
	lab  = "{namespaces: {matchLabels: {team: b}}}"
	all  = "{namespaces: {}}"
	cidr = "{networks: [0.0.0.0/0, '::/0']}"
)

// clusterPolicies has policies of the test cluster, and flows with their expected verdicts.
type clusterPolicies struct {
	name, policies string
	probes         []probe
}

func ingressRules(rules ...string) string { return "ingress: [" + strings.Join(rules, ", ") + "]" }

func egressRules(rules ...string) string { return "egress: [" + strings.Join(rules, ", ") + "]" }

func runClusterPolicies(t *testing.T, tests []clusterPolicies) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(cluster+nodes+tt.policies))
			require.Empty(t, problems)
			check(t, resources, tt.probes)
		})
	}
}

func TestClusterNetworkPolicyTiers(t *testing.T) {
	runClusterPolicies(t, []clusterPolicies{
		{
			"S144 Admin decides before NetworkPolicy",
			isolateWeb + cnp("a", "Admin", 10, ingressRules(from("Accept", lab, ""),
				from("Deny", "{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: cart}}}}", ""))),
			[]probe{{rat, web, tcp, 80, yes}, {cart, web, tcp, 80, no}},
		},
		{
			"S144 nothing selects: allowed",
			cnpFor("a", "Admin", 10, "{namespaces: {matchLabels: {team: none}}}", ingressRules(from("Deny", all, ""))),
			[]probe{{rat, web, tcp, 80, yes}},
		},
		{
			"S145 the smaller priority first", cnp("a", "Admin", 20, ingressRules(from("Deny", lab, ""))) +
				cnp("b", "Admin", 10, ingressRules(from("Accept", lab, ""))),
			[]probe{{rat, web, tcp, 80, yes}},
		},
		{
			"S145 rules in order", cnp("a", "Admin", 20, ingressRules(from("Accept", lab, ""), from("Deny", all, ""))),
			[]probe{{rat, web, tcp, 80, yes}, {cart, web, tcp, 80, no}},
		},
		{
			"S145 equal priority: by name", cnp("b", "Admin", 10, ingressRules(from("Deny", lab, ""))) +
				cnp("a", "Admin", 10, ingressRules(from("Accept", lab, ""))),
			[]probe{{rat, web, tcp, 80, yes}},
		},
		{
			"S146 no match goes on", cnp("a", "Admin", 10, ingressRules(from("Accept", lab, ""))) +
				cnp("b", "Baseline", 10, ingressRules(from("Accept", lab, ""))),
			[]probe{{cart, web, tcp, 80, yes}, {beyond, web, tcp, 80, yes}},
		},
		{
			"S147 Pass skips the other Admin policies", isolateWeb + cnp("a", "Admin", 10,
				ingressRules(from("Pass", all, ""))) + cnp("b", "Admin", 20, ingressRules(from("Deny", all, ""))),
			[]probe{{cart, web, tcp, 80, yes}, {rat, web, tcp, 80, no}, {web, cart, tcp, 80, yes}},
		},
		{
			"S147 after Pass, where no NetworkPolicy selects, Baseline", isolateWeb + cnp("a", "Admin", 10,
				ingressRules(from("Pass", all, ""))) + cnp("b", "Baseline", 20, ingressRules(from("Deny", lab, ""))),
			[]probe{{rat, cart, tcp, 80, no}, {web, cart, tcp, 80, yes}},
		},
		{
			"S148 NetworkPolicy decides finally",
			isolateWeb + cnp("a", "Baseline", 10, ingressRules(from("Accept", lab, ""), from("Deny", all, ""))),
			[]probe{
				{rat, web, tcp, 80, no}, {cart, web, tcp, 80, yes}, {rat, cart, tcp, 80, yes}, {web, cart, tcp, 80, no},
			},
		},
		{
			"S149 NetworkPolicy for the other direction alone",
			isolateWeb + cnp("a", "Baseline", 10, egressRules(to("Deny", lab, ""))),
			[]probe{{web, rat, tcp, 80, no}, {cart, web, tcp, 80, yes}},
		},
	})
}

// The peers and the subject of a ClusterNetworkPolicy select pods, nodes and networks.
func TestClusterNetworkPolicyPeers(t *testing.T) {
	runClusterPolicies(t, []clusterPolicies{
		{
			"S150 networks match pods", cnp("a", "Admin", 10, egressRules(to("Deny", "{networks: [10.0.0.0/16]}", ""))),
			[]probe{{web, rat, tcp, 80, no}, {web, beyond, tcp, 80, yes}, {web6, rat6, tcp, 80, yes}},
		},
		{
			"S150 a catch-all of one family",
			cnp("a", "Admin", 10, egressRules(to("Deny", "{networks: [0.0.0.0/0]}", ""))),
			[]probe{{web, rat, tcp, 80, no}, {web, beyond, gre, 0, no}, {web6, rat6, tcp, 80, yes}},
		},
		{
			"S151 nodes: the addresses of their status",
			cnp("a", "Admin", 10, egressRules(to("Deny", "{nodes: {matchLabels: {zone: east}}}", ""))),
			[]probe{
				{web, host, tcp, 80, no},
				{web, nodeOut, tcp, 80, no},
				{web6, node6, tcp, 80, no},
				{web, node2, tcp, 80, yes},
				{web, rat, tcp, 80, yes},
			},
		},
		{
			"S151 all nodes, and those without a label",
			cnp("a", "Admin", 10, egressRules(to("Accept", "{nodes: {matchExpressions: [{key: zone, operator: NotIn, "+
				"values: [east]}]}}", ""), to("Deny", "{nodes: {}}", ""))),
			[]probe{
				{web, host, tcp, 80, no},
				{web, node2, tcp, 80, yes},
				{web, rat, tcp, 80, yes},
				{web, beyond, tcp, 80, yes},
				{web, partner, tcp, 80, yes},
			},
		},
		{
			"S151 nodes without a label are nodes still", cnp("a", "Admin", 10, egressRules(
				to("Deny", "{nodes: {matchExpressions: [{key: zone, operator: NotIn, values: [east]}]}}", ""),
			)),
			[]probe{
				{web, node2, tcp, 80, no},
				{web, host, tcp, 80, yes},
				{web, rat, tcp, 80, yes},
				{web, partner, tcp, 80, yes},
			},
		},
		{
			"S151 pods and namespaces leave host-networked pods out", cnp("a", "Admin", 10,
				egressRules(to("Deny", all, ""), to("Deny", "{pods: {namespaceSelector: {}, podSelector: {}}}", ""))),
			[]probe{{web, host, tcp, 80, yes}, {web, rat, tcp, 80, no}, {web, partner, tcp, 80, yes}},
		},
		{
			"S152 the subject never is a host-networked pod",
			cnp("a", "Admin", 10, ingressRules(from("Deny", all, ""))+", "+egressRules(to("Deny", cidr, ""))),
			[]probe{{web, host, tcp, 80, no}, {host, beyond, tcp, 80, verdict.NotApplicable}},
		},
		{
			"S152 subject by pods", cnpFor("a", "Admin", 10, "{pods: {namespaceSelector: {matchLabels: {team: a}}, "+
				"podSelector: {matchLabels: {app: cart}}}}", ingressRules(from("Deny", lab, ""))),
			[]probe{{rat, cart, tcp, 80, no}, {rat, web, tcp, 80, yes}},
		},
		{
			"S156 no ingress rules, no effect on ingress", cnp("a", "Admin", 10, egressRules(to("Deny", lab, ""))),
			[]probe{{rat, web, tcp, 80, yes}, {beyond, web, tcp, 80, yes}, {web, rat, tcp, 80, no}},
		},
		{
			"S156 no rules at all", cnp("a", "Admin", 10, "ingress: []"),
			[]probe{{rat, web, tcp, 80, yes}, {web, rat, tcp, 80, yes}},
		},
	})
}

// S153
func TestClusterNetworkPolicyProtocols(t *testing.T) {
	tests := []struct {
		name, protocols string
		probes          []probe // from cart to web: port 80 is http of TCP, 53 dns of UDP
	}{
		{"absent: all", "", []probe{{cart, web, gre, 0, no}, {cart, web, tcp, 1, no}}},
		{"all of TCP", "[{tcp: {}}]", []probe{
			{cart, web, tcp, 9, no}, {cart, web, udp, 9, yes}, {cart, web, gre, 0, yes},
		}},
		{
			"all of TCP and one number", "[{tcp: {destinationPort: {number: 80}}}, {tcp: {}}]",
			[]probe{{cart, web, tcp, 9, no}},
		},
		{"number", "[{udp: {destinationPort: {number: 80}}}]", []probe{
			{cart, web, udp, 80, no}, {cart, web, udp, 81, yes}, {cart, web, tcp, 80, yes},
		}},
		{"range", "[{sctp: {destinationPort: {range: {start: 80, end: 90}}}}]", []probe{
			{cart, web, sctp, 79, yes},
			{cart, web, sctp, 80, no},
			{cart, web, sctp, 90, no},
			{cart, web, sctp, 91, yes},
		}},
		{"range of one", "[{sctp: {destinationPort: {range: {start: 80, end: 80}}}}]", []probe{
			{cart, web, sctp, 80, no}, {cart, web, sctp, 81, yes},
		}},
		{"name", "[{destinationNamedPort: http}]", []probe{
			{cart, web, tcp, 80, no},
			{cart, web, udp, 80, yes},
			{cart, web, tcp, 8080, yes},
			{web, cart, tcp, 8080, no},
		}},
		{"name of a UDP port", "[{destinationNamedPort: dns}]", []probe{
			{cart, web, udp, 53, no}, {cart, web, tcp, 53, yes},
		}},
		{"name that nobody has", "[{destinationNamedPort: none}]", []probe{
			{cart, web, udp, 53, yes}, {cart, web, tcp, 80, yes},
		}},
		{
			"several", "[{destinationNamedPort: http}, {tcp: {destinationPort: {number: 9}}}]",
			[]probe{{cart, web, tcp, 80, no}, {cart, web, tcp, 9, no}, {cart, web, tcp, 10, yes}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rest := ""
			if tt.protocols != "" {
				rest = ", protocols: " + tt.protocols
			}
			for _, rules := range []string{
				"ingress: [" + from("Deny", all, rest) + "]", "egress: [" + to("Deny", all, rest) + "]",
			} {
				resources, problems := manifest.Decode("test.yaml", []byte(cluster+cnp("a", "Admin", 10, rules)))
				require.Empty(t, problems)
				check(t, resources, tt.probes)
			}
		})
	}
}

// A rule with an error fails closed. An Accept rule matches nothing, a Deny or Pass rule denies
// everything. The other rules apply. S154, S155
func TestClusterNetworkPolicyFailClosed(t *testing.T) {
	protocol := func(p string) string { return "from: [{namespaces: {}}], protocols: " + p }
	tests := []struct {
		name, rule, field string
		egress            bool
	}{
		{"no known field", "from: [{}]", "from[0]", false},
		{"no known field beside a good peer", "from: [{namespaces: {}}, {}]", "from[1]", false},
		{"field of a newer API", "from: [{namespaces: {}, clusters: {}}]", "from[0].clusters", false},
		{"two fields", "from: [{namespaces: {}, pods: {namespaceSelector: {}, podSelector: {}}}]", "from[0]", false},
		{"no peers", "from: []", "from", false},
		{"peers missing", "protocols: [{tcp: {}}]", "from", false},
		{"networks in ingress", "from: [{networks: [10.0.0.0/8]}]", "from[0].networks", false},
		{"no pod selector", "from: [{pods: {namespaceSelector: {}}}]", "from[0].pods.podSelector", false},
		{"null", "from: [{pods: {namespaceSelector: {}, podSelector: null}}]", "from[0].pods.podSelector", false},
		{"label", "from: [{namespaces: {matchLabels: {'a b': c}}}]", "from[0].namespaces.matchLabels", false},
		{
			"operator", "from: [{namespaces: {matchExpressions: [{key: a, operator: Is}]}}]",
			"from[0].namespaces.matchExpressions[0].operator", false,
		},
		{"field of a newer API in the rule", "from: [{namespaces: {}}], logging: true", "logging", false},
		{"no CIDR", "to: [{networks: [10.0.0.0/8, 10.0.0.1]}]", "to[0].networks[1]", true},
		{"CIDR", "to: [{networks: [10.0.0.0/33]}]", "to[0].networks[0]", true},
		{"CIDR that is a number", "to: [{networks: [10]}]", "to[0].networks[0]", true},
		{"no networks", "to: [{networks: []}]", "to[0]", true},
		{"null for networks", "to: [{networks: null}]", "to[0].networks", true},
		{"domain names", "to: [{domainNames: [kubernetes.io]}]", "to[0].domainNames", true},
		{
			"nodes", "to: [{nodes: {matchExpressions: [{key: a, operator: In}]}}]",
			"to[0].nodes.matchExpressions[0].values", true,
		},
		{
			"port name with networks", "to: [{networks: [10.0.0.0/8]}], protocols: [{destinationNamedPort: http}]",
			"protocols[0].destinationNamedPort", true,
		},
		{
			"port name with nodes", "to: [{nodes: {}}], protocols: [{destinationNamedPort: http}]",
			"protocols[0].destinationNamedPort", true,
		},
		{"port 0", protocol("[{tcp: {destinationPort: {number: 0}}}]"), "protocols[0].tcp.destinationPort", false},
		{
			"port over 65535", protocol("[{tcp: {}}, {udp: {destinationPort: {number: 65536}}}]"),
			"protocols[1].udp.destinationPort", false,
		},
		{
			"port that is text", protocol("[{tcp: {destinationPort: {number: '80'}}}]"),
			"protocols[0].tcp.destinationPort.number", false,
		},
		{
			"range upside down", protocol("[{sctp: {destinationPort: {range: {start: 2, end: 1}}}}]"),
			"protocols[0].sctp.destinationPort", false,
		},
		{
			"half a range", protocol("[{sctp: {destinationPort: {range: {start: 2}}}}]"),
			"protocols[0].sctp.destinationPort", false,
		},
		{
			"number and range", protocol("[{tcp: {destinationPort: {number: 1, range: {start: 1, end: 2}}}}]"),
			"protocols[0].tcp.destinationPort", false,
		},
		{"port of nothing", protocol("[{tcp: {destinationPort: {}}}]"), "protocols[0].tcp.destinationPort", false},
		{"no protocols", protocol("[]"), "protocols", false},
		{"protocol of nothing", protocol("[{}]"), "protocols[0]", false},
		{"protocol of a newer API", protocol("[{icmp: {}}]"), "protocols[0].icmp", false},
		{"two protocols in one", protocol("[{tcp: {}, udp: {}}]"), "protocols[0]", false},
		{"port name", protocol("[{destinationNamedPort: 'a b'}]"), "protocols[0].destinationNamedPort", false},
	}
	for _, tt := range tests {
		for _, action := range []string{"Accept", "Deny", "Pass"} {
			t.Run(tt.name+" "+action, func(t *testing.T) {
				direction := "ingress"
				before, after := from("Accept", lab, ", protocols: [{sctp: {}}]"), from("Deny",
					"{namespaces: {matchLabels: {team: a}}}", "")
				if tt.egress {
					direction, before, after = "egress", to("Accept", lab, ", protocols: [{sctp: {}}]"), to("Deny",
						"{namespaces: {matchLabels: {team: a}}}", "")
				}
				rule := "{action: " + action + ", name: the-rule, " + tt.rule + "}"
				resources, problems := manifest.Decode("test.yaml", []byte(cluster+cnp("a", "Admin", 10,
					direction+": ["+before+", "+rule+", "+after+"]")))
				require.Len(t, problems, 1)
				var wrong *manifest.Error
				require.ErrorAs(t, problems[0], &wrong)
				require.Equal(t, "ClusterNetworkPolicy a", wrong.Object.String())
				require.Equal(t, "spec."+direction+"[1]."+tt.field, wrong.Field)
				rest := no
				if action == "Accept" {
					rest = yes // by the profile of the namespace
				}
				check(t, resources, []probe{
					{cart, web, tcp, 80, no}, {rat, rat, sctp, 80, yes}, {rat, rat, tcp, 80, rest},
				})
			})
		}
	}
}

// A closed rule that denies has an annotation with the reason. A rule has an annotation with its
// name.
func TestClusterNetworkPolicyMetadata(t *testing.T) {
	object := &policyv1alpha2.ClusterNetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: policyv1alpha2.ClusterNetworkPolicySpec{
			Tier: policyv1alpha2.BaselineTier, Priority: 7,
			Subject: policyv1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
			Ingress: []policyv1alpha2.ClusterNetworkPolicyIngressRule{{
				Name: "one\x00\n", Action: "Accept",
				From: []policyv1alpha2.ClusterNetworkPolicyIngressPeer{{Namespaces: &metav1.LabelSelector{}}},
			}},
			Egress: []policyv1alpha2.ClusterNetworkPolicyEgressRule{{Name: "two", Action: "Pass"}, {Action: "Accept"}},
		},
	}
	p, problems := convert.Converter{}.ClusterNetworkPolicy(object)
	require.Len(t, problems, 2)
	require.EqualError(t, problems[0], "ClusterNetworkPolicy a: spec.egress[0].to: want at least one peer")
	require.Equal(t, &policy.Policy{
		Name: "kcnp.a", Tier: "kube-baseline", Order: ptr(7.0), Selector: `projectcalico.org/orchestrator == "k8s"`,
		NamespaceSelector: "all()", Types: []policy.Type{policy.Ingress, policy.Egress},
		Ingress: []policy.Rule{{
			Action: policy.Allow,
			Source: policy.EntityRule{
				Selector: `projectcalico.org/orchestrator == "k8s"`, NamespaceSelector: "all()",
			},
			Metadata: &policy.RuleMetadata{Annotations: map[string]string{convert.AnnotationRuleName: "one"}},
		}},
		Egress: []policy.Rule{
			{
				Action: policy.Deny,
				Metadata: &policy.RuleMetadata{Annotations: map[string]string{
					convert.AnnotationRuleName:   "two",
					convert.AnnotationFailClosed: "this Pass rule was not understood: it denies everything",
				}},
				Doubts: []policy.Problem{{Field: "spec.egress[0].to", Msg: "want at least one peer"}},
			},
			{
				Action: policy.Allow,
				Source: policy.EntityRule{
					NotNets: policy.Nets{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
				},
				Doubts: []policy.Problem{{Field: "spec.egress[1].to", Msg: "want at least one peer"}},
			},
		},
	}, p)
}

// A policy applies to the directions for which it has rules, even if all rules are left out. S156
func TestClusterNetworkPolicyTypes(t *testing.T) {
	for rules, want := range map[string][]policy.Type{
		"ingress: [" + from("Deny", all, "") + "]": {policy.Ingress},
		"egress: [" + to("Deny", all, "") + "]":    {policy.Egress},
		"egress: [" + to("Deny", all, "") + "], ingress: [" + from("Accept", all, "") +
			"]": {policy.Ingress, policy.Egress},
		"egress: [" + to("Accept", "{}", "") + "]": {policy.Egress},
	} {
		resources, _ := manifest.Decode("test.yaml", []byte(cnp("a", "Admin", 10, rules)))
		p, ok := resources[0].(*policy.Policy)
		require.True(t, ok)
		require.Equal(t, want, p.Types, rules)
	}
}

// A ClusterNetworkPolicy with an error outside of its rules is absent.
func TestInvalidClusterNetworkPolicyIsAbsent(t *testing.T) {
	const head = "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\n" +
		"metadata: {name: a}\nspec: "
	tests := []struct{ name, text, field string }{
		{"no name", strings.Replace(head, "name: a", "", 1) +
			"{tier: Admin, priority: 1, subject: {namespaces: {}}}", "metadata.name"},
		{"namespace", strings.Replace(head, "name: a", "name: a, namespace: b", 1) +
			"{tier: Admin, priority: 1, subject: {namespaces: {}}}", "metadata.namespace"},
		{"tier", head + "{tier: admin, priority: 1, subject: {namespaces: {}}}", "spec.tier"},
		{"no priority", head + "{tier: Admin, subject: {namespaces: {}}}", "spec.priority"},
		{"null for the priority", head + "{tier: Admin, priority: , subject: {namespaces: {}}}", "spec.priority"},
		{"negative priority", head + "{tier: Admin, priority: -1, subject: {namespaces: {}}}", "spec.priority"},
		{"priority over 1000", head + "{tier: Admin, priority: 1001, subject: {namespaces: {}}}", "spec.priority"},
		{"no subject", head + "{tier: Admin, priority: 1}", "spec.subject"},
		{"empty subject", head + "{tier: Admin, priority: 1, subject: {}}", "spec.subject"},
		{"null in the subject", head +
			"{tier: Admin, priority: 1, subject: {namespaces: null}}", "spec.subject.namespaces"},
		{"two subjects", head + "{tier: Admin, priority: 1, subject: {namespaces: {}, pods: {namespaceSelector: {}, " +
			"podSelector: {}}}}", "spec.subject"},
		{"subject of a newer API", head +
			"{tier: Admin, priority: 1, subject: {clusters: {}}}", "spec.subject.clusters"},
		{"subject without pod selector", head +
			"{tier: Admin, priority: 1, subject: {pods: {namespaceSelector: {}}}}", "spec.subject.pods.podSelector"},
		{"subject's namespaces", head + "{tier: Admin, priority: 1, subject: {namespaces: {matchLabels: " +
			"{'a b': c}}}}", "spec.subject.namespaces.matchLabels"},
		{"unknown field", head + "{tier: Admin, priority: 1, subject: {namespaces: {}}, order: 1}", "spec.order"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(tt.text))
			require.Empty(t, resources)
			require.Len(t, problems, 1)
			var wrong *manifest.Error
			require.ErrorAs(t, problems[0], &wrong)
			require.Equal(t, tt.field, wrong.Field)
		})
	}
}

// If the Namespace of a pod is missing, a selector of an absent label matches the pod in a Deny
// rule. In Accept and Pass rules, such a selector does not match the pod. The same holds for the
// subject.
func TestClusterNetworkPolicyUnknownNamespace(t *testing.T) {
	const stray = "apiVersion: v1\nkind: Pod\nmetadata: {name: stray, namespace: gone}\n" +
		"spec: {nodeName: n1, containers: [{name: c}]}\nstatus: {podIPs: [{ip: 10.0.3.1}]}\n---\n" +
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: open, namespace: gone}\n" +
		"spec: {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}\n---\n"
	const lost = "10.0.3.1"
	without := "{namespaces: {matchExpressions: [{key: team, operator: DoesNotExist}]}}"
	run := func(policies string, probes ...probe) {
		t.Helper()
		resources, problems := manifest.Decode("test.yaml", []byte(cluster+stray+policies))
		require.Empty(t, problems)
		check(t, resources, probes)
	}
	run("", probe{lost, web, tcp, 80, yes}, probe{web, lost, tcp, 80, yes})
	run(cnp("a", "Admin", 1, "ingress: ["+from("Deny", without, "")+"]"), probe{lost, web, tcp, 80, no},
		probe{plain, web, tcp, 80, no}, probe{rat, web, tcp, 80, yes})
	run(cnp("a", "Admin", 1, "ingress: ["+from("Accept", without, "")+", "+from("Deny", all, "")+"]"),
		probe{lost, web, tcp, 80, no}, probe{plain, web, tcp, 80, yes})
	run(cnp("a", "Admin", 1, "ingress: ["+from("Pass", without, "")+", "+from("Deny", all, "")+"]"),
		probe{lost, web, tcp, 80, no}, probe{plain, web, tcp, 80, yes})
	run(cnpFor("a", "Admin", 1, without, "ingress: ["+from("Accept", lab, "")+", "+from("Deny", all, "")+"]"),
		probe{rat, lost, tcp, 80, no}, probe{rat, plain, tcp, 80, yes})
	run(cnpFor("a", "Admin", 1, without, "egress: ["+to("Accept", lab, "")+", "+to("Deny", all, "")+"]"),
		probe{lost, rat, tcp, 80, no}, probe{plain, rat, tcp, 80, yes})
}

// S157
func TestClusterNetworkPolicyPriorityChange(t *testing.T) {
	deny := func(priority int) string {
		return cnp("deny", "Admin", priority, "ingress: ["+from("Deny", lab, "")+"]")
	}
	world := verdict.World{}
	set := func(text string) {
		resources, problems := manifest.Decode("test.yaml", []byte(text))
		require.Empty(t, problems)
		world.Set(resources...)
	}
	set(cluster + deny(60) + cnp("accept", "Admin", 50, "ingress: ["+from("Accept", lab, "")+"]"))
	check(t, values(world), []probe{{rat, web, tcp, 80, yes}})
	set(deny(40))
	check(t, values(world), []probe{{rat, web, tcp, 80, no}})
}

func values(world verdict.World) []policy.Resource {
	var list []policy.Resource
	for _, r := range world {
		list = append(list, r)
	}
	return list
}
