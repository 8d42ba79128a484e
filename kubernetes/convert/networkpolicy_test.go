// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// cluster has namespaces with pods, a host-networked pod (10.9.0.1), and a network set in shop with
// the labels of a pod.
const cluster = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: a}}
---
apiVersion: v1
kind: Namespace
metadata: {name: lab, labels: {team: b, empty: ""}}
---
apiVersion: v1
kind: Namespace
metadata: {name: default}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  nodeName: n1
  containers: [{name: c, ports: [{name: http, containerPort: 80}, {name: dns, containerPort: 53, protocol: UDP}]}]
status: {podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: cart, namespace: shop, labels: {app: cart, tag: ""}}
spec: {nodeName: n1, containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}
status: {podIPs: [{ip: 10.0.0.2}, {ip: "fd00::2"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: rat, namespace: lab, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.1.1}, {ip: "fd00::1:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: {nodeName: n1, containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.2.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: proxy, namespace: lab, labels: {app: web}}
spec: {nodeName: n1, hostNetwork: true, containers: [{name: c}]}
status: {podIPs: [{ip: 10.9.0.1}]}
---
apiVersion: projectcalico.org/v3
kind: NetworkSet
metadata: {name: partners, namespace: shop, labels: {app: web}}
spec: {nets: [203.0.113.0/24]}
---
`

const (
	web, cart, rat, plain = "10.0.0.1", "10.0.0.2", "10.0.1.1", "10.0.2.1"
	web6, cart6, rat6     = "fd00::1", "fd00::2", "fd00::1:1"
	host, partner, beyond = "10.9.0.1", "203.0.113.9", "198.51.100.7"
)

// probe is a flow with its expected outcome.
type probe struct {
	src, dst string
	protocol policy.Protocol
	port     uint16
	want     verdict.Outcome
}

const (
	tcp, udp, sctp, gre = policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolSCTP, policy.Protocol(47)
	yes, no             = verdict.Allow, verdict.Deny
)

// meaning is the spec of a NetworkPolicy, and flows in the test cluster with their expected
// verdicts.
type meaning struct {
	name, spec string
	probes     []probe
}

// ingress returns the spec of a policy for app=web.
func ingress(rules string) string {
	return "{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: " + rules + "}"
}

func TestNetworkPolicyPeers(t *testing.T) {
	runMeanings(t, []meaning{
		{
			"S125 no policy selects: all allowed", "{podSelector: {matchLabels: {app: none}}}",
			[]probe{{rat, web, tcp, 80, yes}, {web, beyond, gre, 0, yes}, {beyond, cart, udp, 1, yes}},
		},
		{
			"S126 types absent, no egress rules: ingress only", "{podSelector: {}}",
			[]probe{{rat, web, tcp, 80, no}, {web, rat, tcp, 80, yes}},
		},
		{
			"S126 types absent, empty egress: ingress only", "{podSelector: {}, egress: []}",
			[]probe{{rat, web, tcp, 80, no}, {web, rat, tcp, 80, yes}},
		},
		{
			"S126 types absent, egress rules: both", "{podSelector: {}, egress: [{ports: [{port: 80}]}]}",
			[]probe{{rat, web, tcp, 80, no}, {web, rat, tcp, 80, yes}, {web, rat, tcp, 81, no}},
		},
		{
			"S126 rules for a type that is not given do not count",
			"{podSelector: {}, policyTypes: [Egress], ingress: [{}]}",
			[]probe{{rat, web, tcp, 80, yes}, {web, rat, tcp, 80, no}},
		},
		{"S127 no rules: deny all", ingress("[]"), []probe{{rat, web, tcp, 80, no}, {beyond, web, gre, 0, no}}},
		{"S127 an empty rule: allow all", ingress("[{}]"), []probe{
			{rat, web, tcp, 80, yes}, {beyond, web, gre, 0, yes},
		}},
		{
			"S128 empty from: any source", ingress("[{from: [], ports: [{port: 80}]}]"),
			[]probe{{rat, web, tcp, 80, yes}, {beyond, web, tcp, 80, yes}, {rat, web, tcp, 81, no}},
		},
		{
			"S128 empty podSelector: all pods of the own namespace", ingress("[{from: [{podSelector: {}}]}]"),
			[]probe{
				{cart, web, tcp, 80, yes},
				{rat, web, tcp, 80, no},
				{beyond, web, tcp, 80, no},
				{partner, web, tcp, 80, no},
			},
		},
		{
			"S129 all namespaces: pods only", ingress("[{from: [{namespaceSelector: {}}]}]"),
			[]probe{
				{cart, web, tcp, 80, yes},
				{rat, web, gre, 0, yes},
				{beyond, web, tcp, 80, no},
				{host, web, tcp, 80, no},
				{partner, web, tcp, 80, no},
			},
		},
		{
			"S130 one peer: and", ingress("[{from: [{namespaceSelector: {matchLabels: {team: b}}, podSelector: " +
				"{matchLabels: {app: web}}}]}]"),
			[]probe{{rat, web, tcp, 80, yes}, {cart, web, tcp, 80, no}},
		},
		{
			"S130 two peers: or", ingress("[{from: [{namespaceSelector: {matchLabels: {team: b}}}, {podSelector: " +
				"{matchLabels: {app: cart}}}]}]"),
			[]probe{{rat, web, tcp, 80, yes}, {cart, web, tcp, 80, yes}, {plain, web, tcp, 80, no}},
		},
	})
}

// S131, S132: peers can be blocks of addresses.
func TestNetworkPolicyBlocks(t *testing.T) {
	runMeanings(t, []meaning{
		{
			"S131 ipBlock matches pods and others; except",
			ingress("[{from: [{ipBlock: {cidr: 10.0.0.0/15, except: [10.0.1.0/24, 192.0.2.0/24]}}]}]"),
			[]probe{
				{cart, web, tcp, 80, yes},
				{plain, web, tcp, 80, yes},
				{rat, web, tcp, 80, no},
				{beyond, web, tcp, 80, no},
			},
		},
		{"S131 except all of it", ingress("[{from: [{ipBlock: {cidr: 10.0.0.0/15, except: [10.0.0.0/8]}}]}]"), []probe{
			{cart, web, tcp, 80, no},
		}},
		{
			"S131 except of the other family", ingress("[{from: [{ipBlock: {cidr: 10.0.0.0/15, except: ['::/0']}}]}]"),
			[]probe{{cart, web, tcp, 80, yes}, {cart6, web6, tcp, 80, no}},
		},
		{
			"S131 several blocks", ingress("[{from: [{ipBlock: {cidr: 10.0.0.2/32}}, {ipBlock: {cidr: 10.0.1.0/24}}, " +
				"{ipBlock: {cidr: 'fd00::2/128'}}]}]"),
			[]probe{
				{cart, web, tcp, 80, yes},
				{rat, web, tcp, 80, yes},
				{cart6, web6, tcp, 80, yes},
				{rat6, web6, tcp, 80, no},
				{plain, web, tcp, 80, no},
			},
		},
		{"S132 0.0.0.0/0 is IPv4", ingress("[{from: [{ipBlock: {cidr: 0.0.0.0/0}}]}]"), []probe{
			{cart, web, tcp, 80, yes}, {cart6, web6, tcp, 80, no},
		}},
		{"S132 ::/0 is IPv6", ingress("[{from: [{ipBlock: {cidr: '::/0'}}]}]"), []probe{
			{cart, web, tcp, 80, no}, {cart6, web6, tcp, 80, yes},
		}},
	})
}

// S138 to S142: selectors of peers match labels of pods and namespaces. They do not match network
// sets.
func TestNetworkPolicySelectors(t *testing.T) {
	runMeanings(t, []meaning{
		{
			"S138 NotIn matches without the key",
			ingress("[{from: [{podSelector: {matchExpressions: [{key: tag, operator: NotIn, values: [x]}]}}]}]"),
			[]probe{{cart, web, tcp, 80, yes}, {web, web, tcp, 80, yes}, {partner, web, tcp, 80, no}},
		},
		{"S138 DoesNotExist", ingress("[{from: [{podSelector: {matchExpressions: [{key: tag, operator: " +
			"DoesNotExist}]}}]}]"), []probe{{cart, web, tcp, 80, no}, {web, web, tcp, 80, yes}}},
		{
			"S138 Exists", ingress("[{from: [{podSelector: {matchExpressions: [{key: tag, operator: Exists}]}}]}]"),
			[]probe{{cart, web, tcp, 80, yes}, {web, web, tcp, 80, no}},
		},
		{"S138 In", ingress("[{from: [{podSelector: {matchExpressions: [{key: tag, operator: In, values: " +
			"[x, '']}]}}]}]"), []probe{{cart, web, tcp, 80, yes}, {web, web, tcp, 80, no}}},
		{
			"S138 namespace without the key",
			ingress("[{from: [{namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}]}]"),
			[]probe{
				{plain, web, tcp, 80, yes},
				{rat, web, tcp, 80, no},
				{beyond, web, tcp, 80, no},
				{partner, web, tcp, 80, no},
			},
		},
		{
			"S138 namespace with another value or none",
			ingress("[{from: [{namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [a]}]}}]}]"),
			[]probe{{plain, web, tcp, 80, yes}, {rat, web, tcp, 80, yes}, {cart, web, tcp, 80, no}},
		},
		{
			"S139 labels and expressions are and-ed", ingress("[{from: [{podSelector: {matchLabels: {app: cart}, " +
				"matchExpressions: [{key: app, operator: In, values: [web]}]}}]}]"),
			[]probe{{cart, web, tcp, 80, no}, {web, web, tcp, 80, no}},
		},
		{
			"S139 an empty value is not absence", ingress("[{from: [{podSelector: {matchLabels: {tag: ''}}}, " +
				"{namespaceSelector: {matchLabels: {empty: ''}}}]}]"),
			[]probe{
				{cart, web, tcp, 80, yes}, {web, web, tcp, 80, no}, {rat, web, tcp, 80, yes}, {plain, web, tcp, 80, no},
			},
		},
		{
			"S141 name of a namespace",
			ingress("[{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: lab}}}]}]"),
			[]probe{{rat, web, tcp, 80, yes}, {cart, web, tcp, 80, no}},
		},
		{
			"S142 both sides must allow", "{podSelector: {}, policyTypes: [Egress]}",
			[]probe{{web, rat, tcp, 80, no}, {rat, web, tcp, 80, yes}},
		},
	})
}

func TestNetworkPolicyPorts(t *testing.T) {
	runMeanings(t, []meaning{
		{"S133 no protocol: TCP", ingress("[{ports: [{port: 80}]}]"), []probe{
			{cart, web, tcp, 80, yes}, {cart, web, udp, 80, no},
		}},
		{"S133 empty port: all of TCP", ingress("[{ports: [{}]}]"), []probe{
			{cart, web, tcp, 9, yes}, {cart, web, udp, 80, no}, {cart, web, gre, 0, no},
		}},
		{
			"S133 one number and all of UDP",
			ingress("[{ports: [{port: 80, protocol: UDP}, {protocol: UDP}, {port: 80}]}]"),
			[]probe{{cart, web, udp, 9, yes}, {cart, web, tcp, 80, yes}, {cart, web, tcp, 81, no}},
		},
		{"S134 no ports: everything", ingress("[{ports: []}]"), []probe{
			{cart, web, gre, 0, yes}, {cart, web, sctp, 5, yes},
		}},
		{
			"S135 endPort is inclusive", ingress("[{ports: [{port: 80, endPort: 90}, {port: 65535, endPort: 65535}]}]"),
			[]probe{
				{cart, web, tcp, 79, no},
				{cart, web, tcp, 80, yes},
				{cart, web, tcp, 90, yes},
				{cart, web, tcp, 91, no},
				{cart, web, tcp, 65535, yes},
			},
		},
		{
			"S137 named port in ingress", ingress("[{ports: [{port: http}, {port: dns, protocol: UDP}, {port: dns}]}]"),
			[]probe{
				{cart, web, tcp, 80, yes},
				{cart, web, tcp, 8080, no},
				{cart, web, udp, 53, yes},
				{cart, web, tcp, 53, no},
			},
		},
		{
			"S137 named port in egress is the destination's",
			"{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: http}]}]}",
			[]probe{
				{web, cart, tcp, 8080, yes},
				{web, cart, tcp, 80, no},
				{web, beyond, tcp, 80, no},
				{cart, web, tcp, 80, yes},
			},
		},
	})
}

func runMeanings(t *testing.T, tests []meaning) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			np := "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n" +
				"metadata: {name: test, namespace: shop}\nspec: " + tt.spec
			resources, problems := manifest.Decode("test.yaml", []byte(cluster+np))
			require.Empty(t, problems)
			check(t, resources, tt.probes)
		})
	}
}

// check compares the expected outcomes with the reference evaluator, and with the tables of the
// pods' node.
func check(t *testing.T, resources []policy.Resource, probes []probe) {
	t.Helper()
	world := verdict.World{}
	world.Set(resources...)
	onNode := renderAll(t, resources)
	for _, p := range probes {
		flow := verdict.Flow{
			Src: netip.MustParseAddr(p.src), Dst: netip.MustParseAddr(p.dst), Protocol: p.protocol, DstPort: p.port,
		}
		if p.protocol.HasPorts() {
			flow.SrcPort = 40000
		}
		require.Equal(t, p.want, verdict.Evaluate(world, flow).Combined, "%s\n%s", flow, verdict.Explain(world, flow))
		onNode.check(t, flow, p.want)
	}
}

// A rule with an error matches nothing. The other rules apply. S136
func TestInvalidRuleOfNetworkPolicyMatchesNothing(t *testing.T) {
	tests := []struct{ name, rule, field string }{
		{"port 0", "{ports: [{port: 80}, {port: 0}]}", "ports[1].port"},
		{"port over 65535", "{ports: [{port: 65536}]}", "ports[0].port"},
		{"negative port", "{ports: [{port: -1}]}", "ports[0].port"},
		{"number as text", "{ports: [{port: '80'}]}", "ports[0].port"},
		{"range as text", "{ports: [{port: '80-90'}]}", "ports[0].port"},
		{"empty name", "{ports: [{port: ''}]}", "ports[0].port"},
		{"long name", "{ports: [{port: sixteen-letters-x}]}", "ports[0].port"},
		{"S135 endPort with a name", "{ports: [{port: http, endPort: 90}]}", "ports[0].endPort"},
		{"S135 endPort before port", "{ports: [{port: 80, endPort: 79}]}", "ports[0].endPort"},
		{"endPort over 65535", "{ports: [{port: 80, endPort: 65536}]}", "ports[0].endPort"},
		{"endPort alone", "{ports: [{endPort: 80}]}", "ports[0].endPort"},
		{"protocol", "{ports: [{port: 80, protocol: tcp}]}", "ports[0].protocol"},
		{"empty protocol", "{ports: [{port: 80, protocol: ''}]}", "ports[0].protocol"},
		{"ICMP", "{ports: [{protocol: ICMP}]}", "ports[0].protocol"},
		{"empty peer", "{from: [{}]}", "from[0]"},
		{"peer of nothing", "{from: [{podSelector: }]}", "from[0]"},
		{"two kinds of peer", "{from: [{ipBlock: {cidr: 0.0.0.0/0}, podSelector: {}}]}", "from[0]"},
		{"CIDR", "{from: [{ipBlock: {cidr: 10.0.0.0/33}}]}", "from[0].ipBlock.cidr"},
		{"no CIDR", "{from: [{ipBlock: {}}]}", "from[0].ipBlock.cidr"},
		{"bare address", "{from: [{ipBlock: {cidr: 10.0.0.1}}]}", "from[0].ipBlock.cidr"},
		{"leading zero", "{from: [{ipBlock: {cidr: 010.0.0.0/8}}]}", "from[0].ipBlock.cidr"},
		{"except", "{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, x]}}]}", "from[0].ipBlock.except[1]"},
		{
			"derived label", "{from: [{podSelector: {matchLabels: {projectcalico.org/namespace: shop}}}]}",
			"from[0].podSelector",
		},
		{
			"operator", "{from: [{podSelector: {matchExpressions: [{key: a, operator: Is, values: [b]}]}}]}",
			"from[0].podSelector.matchExpressions[0].operator",
		},
		{
			"In without values", "{from: [{podSelector: {matchExpressions: [{key: a, operator: In}]}}]}",
			"from[0].podSelector.matchExpressions[0].values",
		},
		{
			"NotIn without values", "{from: [{podSelector: {matchExpressions: [{key: a, operator: NotIn}]}}]}",
			"from[0].podSelector.matchExpressions[0].values",
		},
		{"Exists with values", "{from: [{podSelector: {matchExpressions: [{key: a, operator: Exists, " +
			"values: [b]}]}}]}", "from[0].podSelector.matchExpressions[0].values"},
		{
			"quotes in a value", `{from: [{podSelector: {matchLabels: {a: 'x" || all() || a == "'}}}]}`,
			"from[0].podSelector.matchLabels",
		},
		{
			"quotes in a set", `{from: [{podSelector: {matchExpressions: [{key: a, operator: In, values: ['x"}']}]}}]}`,
			"from[0].podSelector.matchExpressions[0].values[0]",
		},
		{
			"key", `{from: [{namespaceSelector: {matchExpressions: [{key: 'a b', operator: Exists}]}}]}`,
			"from[0].namespaceSelector.matchExpressions[0].key",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			np := "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: test, namespace: shop}\n" +
				"spec: {podSelector: {}, ingress: [" + tt.rule +
				", {from: [{podSelector: {matchLabels: {app: cart}}}]}]}"
			resources, problems := manifest.Decode("test.yaml", []byte(cluster+np))
			require.Len(t, problems, 1)
			var wrong *manifest.Error
			require.ErrorAs(t, problems[0], &wrong)
			require.Equal(t, "spec.ingress[0]."+tt.field, wrong.Field)
			require.Equal(t, "NetworkPolicy shop/test", wrong.Object.String())
			require.Equal(t, 10, wrong.Document)
			check(t, resources, []probe{{rat, web, tcp, 80, no}, {beyond, web, tcp, 80, no}, {cart, web, tcp, 80, yes}})
		})
	}
}

// A NetworkPolicy with an error outside of its rules is absent.
func TestInvalidNetworkPolicyIsAbsent(t *testing.T) {
	tests := []struct{ name, metadata, spec, field string }{
		{"no name", "{}", "{podSelector: {}}", "metadata.name"},
		{"selector", "{name: a}", "{podSelector: {matchLabels: {'a b': c}}}", "spec.podSelector.matchLabels"},
		{"type", "{name: a}", "{podSelector: {}, policyTypes: [ingress]}", "spec.policyTypes[0]"},
		{"name", "{name: 'a\"b'}", "{podSelector: {}}", "metadata.name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			np := "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: " + tt.metadata + "\nspec: " +
				tt.spec
			resources, problems := manifest.Decode("test.yaml", []byte(np))
			require.Empty(t, resources)
			require.Len(t, problems, 1)
			var wrong *manifest.Error
			require.ErrorAs(t, problems[0], &wrong)
			require.Equal(t, tt.field, wrong.Field)
		})
	}
}

// An object without a namespace is in "default". S143
func TestDefaultNamespace(t *testing.T) {
	resources, problems := manifest.Decode("test.yaml", []byte(cluster+
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: test}\nspec: {podSelector: {}}"))
	require.Empty(t, problems)
	require.Equal(t, policy.Key{Kind: policy.KindPolicy, Namespace: "default", Name: "knp.default.test"},
		resources[len(resources)-1].Key())
	check(t, resources, []probe{{rat, plain, tcp, 80, no}, {plain, rat, tcp, 80, yes}})
}

// A name of the maximum length of Kubernetes is valid with the prefix.
func TestLongestNameIsValid(t *testing.T) {
	name := strings.Repeat("a", 253)
	resources, problems := manifest.Decode("test.yaml", []byte(
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: "+name+"}\nspec: {podSelector: {}}"))
	require.Empty(t, problems)
	require.Equal(t, "knp.default."+name, resources[0].Key().Name)
}

// A change of a namespace's labels takes effect without a conversion of other objects. S140
func TestChanges(t *testing.T) {
	np := "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: test, namespace: shop}\n" +
		"spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}}}]}]}\n---\n"
	before, problems := manifest.Decode("test.yaml", []byte(cluster+np))
	require.Empty(t, problems)
	check(t, before, []probe{{rat, web, tcp, 80, yes}, {plain, web, tcp, 80, no}})
	relabelled, problems := manifest.Decode("test.yaml", []byte(`{"apiVersion": "v1", "kind": "List", "items": [
		{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab", "labels": {"team": "c"}}},
		{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "b"}}}]}`))
	require.Empty(t, problems)
	check(t, append(before, relabelled...), []probe{{rat, web, tcp, 80, no}, {plain, web, tcp, 80, yes}})
}
