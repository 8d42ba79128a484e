// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Kubernetes policies as converted resources: a NetworkPolicy is a namespaced policy of the default
// tier. An Admin or Baseline ClusterNetworkPolicy is a global policy of its tier. Each namespace is
// a profile with its labels that allows everything.

// cluster has two namespaces with pods. Pods in the network of their host have its address,
// 192.0.2.1, which belongs to no endpoint.
func cluster(more ...policy.Resource) []policy.Resource {
	return append([]policy.Resource{
		profile("kns.a", "pcns.team=red pcns.kubernetes.io/metadata.name=a", allow()),
		profile("kns.b", "pcns.team=blue pcns.kubernetes.io/metadata.name=b pcns.empty=", allow()),
		wep("a/web", "10.0.0.1 fd00::1", "app=web", "kns.a"),
		wep("a/cli", "10.0.0.2 fd00::2", "app=cli", "kns.a"),
		wep("b/cli", "10.0.1.2 fd00:1::2", "app=cli tier=", "kns.b"),
		wep("b/web", "10.0.1.1", "app=web", "kns.b"),
	}, more...)
}

const (
	fromA    = "tcp 10.0.0.2 10.0.0.1:80"
	fromB    = "tcp 10.0.1.2 10.0.0.1:80"
	fromHost = "tcp 192.0.2.1 10.0.0.1:80"
	fromOut  = "tcp 198.51.100.9 10.0.0.1:80"
)

// netpol is a NetworkPolicy of namespace a that selects app=web for ingress.
func netpol(name string, rules ...policy.Rule) *policy.Policy { return ingress("a/"+name, rules...) }

func TestNetworkPolicy(t *testing.T) {
	from := allowFrom
	ports := func(proto policy.Protocol, p ...policy.Port) policy.Rule {
		return allowTo(proto, policy.EntityRule{Ports: p})
	}
	sel := func(pods, namespaces string) policy.EntityRule {
		return policy.EntityRule{Selector: pods, NamespaceSelector: namespaces}
	}
	run(t, []scenario{
		{"S125 selected by none", cluster(), with("Allow", fromA, fromB, fromOut)},
		{
			"S125 the union of all",
			cluster(netpol("1", from(sel(`app == "cli"`, ""))), netpol("2", from(sel("all()", `team == "blue"`)))),
			expect(with("Allow", fromA, fromB), with("Deny", fromOut)),
		},
		{
			"S125 the other direction stays open", cluster(netpol("1")),
			expect(with("Deny", fromA), with("Allow", "tcp 10.0.0.1 10.0.0.2:80")),
		},
		{
			"S126 egress rules alone",
			cluster(&policy.Policy{Namespace: "a", Name: "p", Selector: `app == "cli"`, Egress: []policy.Rule{deny()}}),
			expect(with("Deny", fromA), with("Allow", "tcp 10.0.1.2 10.0.0.2:80")),
		},
		{"S127 no rules", cluster(netpol("1")), with("Deny", fromA, fromB, fromOut)},
		{"S127 one empty rule", cluster(netpol("1", allow())), with("Allow", fromA, fromB, fromOut)},
		{
			"S128 all pods of the own namespace", cluster(netpol("1", from(sel("all()", "")))),
			expect(with("Allow", fromA), with("Deny", fromB, fromHost, fromOut)),
		},
		{
			"S129 all namespaces", cluster(netpol("1", from(sel("", "all()")))),
			expect(with("Allow", fromA, fromB), with("Deny", fromHost, fromOut)),
		},
		{
			"S130 and", cluster(netpol("1", from(sel(`app == "web"`, `team == "blue"`)))),
			expect(with("Allow", "tcp 10.0.1.1 10.0.0.1:80"), with("Deny", fromB, fromA)),
		},
		{
			"S130 or", cluster(netpol("1", from(sel(`app == "cli"`, "")), from(sel("", `team == "blue"`)))),
			expect(with("Allow", "tcp 10.0.1.1 10.0.0.1:80", fromB, fromA), with("Deny", fromOut)),
		},
		{
			"S131 ipBlock hits pods", cluster(netpol("1",
				from(policy.EntityRule{Nets: netsOf("10.0.0.0/16"), NotNets: netsOf("10.0.1.0/24 172.16.0.0/12")}))),
			expect(with("Allow", fromA), with("Deny", fromB, fromOut)),
		},
		{
			"S132 of one family", cluster(netpol("1", from(policy.EntityRule{Nets: netsOf("0.0.0.0/0")}))),
			expect(with("Allow", fromA), with("Deny", "tcp fd00::2 fd00::1")),
		},
		{
			"S132 of the other", cluster(netpol("1", from(policy.EntityRule{Nets: netsOf("::/0")}))),
			expect(with("Deny", fromA), with("Allow", "tcp fd00::2 fd00::1")),
		},
		{
			"S133 all TCP ports", cluster(netpol("1", policy.Rule{Action: policy.Allow, Protocol: policy.ProtocolTCP})),
			expect(with("Allow", fromA), with("Deny", "udp 10.0.0.2 10.0.0.1:80")),
		},
		{
			"S134 all ports and protocols", cluster(netpol("1", from(sel("all()", "")))),
			with("Allow", "udp 10.0.0.2 10.0.0.1:5", "253 10.0.0.2 10.0.0.1"),
		},
		{"S135 endPort", cluster(netpol("1", ports(6, policy.PortRange(80, 82)))), expect(with("Allow", fromA,
			"tcp 10.0.0.2 10.0.0.1:82"), with("Deny", "tcp 10.0.0.2 10.0.0.1:83", "tcp 10.0.0.2 10.0.0.1:79"))},
		{"S137 named port of the receiver", cluster(withPorts(t, wep("b/web", "10.0.1.1", "app=web", "kns.b"),
			"http/tcp/8080"),
			&policy.Policy{Namespace: "a", Name: "p", Types: []policy.Type{
				policy.Egress,
			}, Egress: []policy.Rule{ports(6, policy.PortName("http"))}}), expect(
			with("Allow", "tcp 10.0.0.1 10.0.1.1:8080"),
			with("Deny", "tcp 10.0.0.1 10.0.1.1:80", "tcp 10.0.0.1 198.51.100.9:8080"))},
		{
			"S138 NotIn and DoesNotExist match without the key",
			cluster(netpol("1", from(sel(`tier not in {"x"}`, "")), from(sel("!has(tier)", "all()")))),
			expect(with("Allow", fromA), with("Deny", fromB)),
		},
		{
			"S138 In and Exists do not",
			cluster(netpol("1", from(sel(`tier in {"", "x"}`, "all()")), from(sel("has(tier)", "all()")))),
			expect(with("Deny", fromA), with("Allow", fromB)),
		},
		{
			"S139 and, the empty value", cluster(netpol("1", from(sel(`app == "cli" && tier == ""`, "all()")))),
			expect(with("Allow", fromB), with("Deny", fromA)),
		},
		{
			"S139 the empty value of a namespace", cluster(netpol("1", from(sel("", `empty == ""`)))),
			expect(with("Allow", fromB), with("Deny", fromA)),
		},
		{
			"S141 the name of a namespace", cluster(netpol("1", from(sel("", `kubernetes.io/metadata.name == "b"`)))),
			expect(with("Allow", fromB), with("Deny", fromA)),
		},
		{"S142 both must allow", cluster(netpol("1", allow()), &policy.Policy{
			Namespace: "a", Name: "p", Selector: `app == "cli"`, Types: []policy.Type{policy.Egress},
		}), expect(with("Deny", fromA), with("Allow", fromB))},
	})
}

func TestNetworkPolicyChanges(t *testing.T) { // S140
	w := worldOf(cluster(netpol("1",
		allowFrom(policy.EntityRule{Selector: `app == "cli"`, NamespaceSelector: `team == "blue"`})))...)
	outcome := func(flow string) verdict.Outcome { return verdict.Evaluate(w, flowOf(t, flow)).Combined }
	require.Equal(t, verdict.Allow, outcome(fromB))
	w.Set(profile("kns.b", "pcns.team=red", allow())) // a changed label of a namespace
	require.Equal(t, verdict.Deny, outcome(fromB))
	w.Set(profile("kns.b", "pcns.team=blue", allow()), wep("b/cli", "10.0.1.2", "app=db", "kns.b")) // of a pod
	require.Equal(t, verdict.Deny, outcome(fromB))
	// an address moves to another pod
	w.Set(wep("b/cli", "10.0.1.3", "app=cli", "kns.b"), wep("b/new", "10.0.1.2", "app=cli", "kns.b"))
	require.Equal(t, verdict.Allow, outcome(fromB))
	require.Equal(t, verdict.Allow, outcome("tcp 10.0.1.3 10.0.0.1:80"))
}

// cnp returns an Admin or Baseline policy for pods with app=web.
func cnp(tier string, priority float64, name string, rules ...policy.Rule) *policy.Policy {
	p := in(tier, priority, ingress(name, rules...))
	p.NamespaceSelector = "all()"
	return p
}

func TestClusterNetworkPolicy(t *testing.T) {
	const admin, baseline = policy.KubeAdminTier, policy.KubeBaselineTier
	named := withPorts(t, wep("a/web", "10.0.0.1 fd00::1", "app=web", "kns.a"), "dns/udp/53 dns/tcp/54")
	nets := func(action policy.Action, s string) policy.Rule {
		return policy.Rule{Action: action, Source: policy.EntityRule{Nets: netsOf(s)}}
	}
	peers := func(action policy.Action, namespaces string) policy.Rule {
		return policy.Rule{Action: action, Source: policy.EntityRule{NamespaceSelector: namespaces}}
	}
	// an endpoint without a namespace, instead of a pod in the host's network
	host := wep("host", "192.0.2.1", "app=web")
	host.Profiles = []string{"kns.a"}
	run(t, []scenario{
		{"S144 Admin first", cluster(cnp(admin, 1, "p", allow()), netpol("n", deny()),
			cnp(baseline, 1, "b", deny())), with("Allow", fromA)},
		{"S144 then NetworkPolicy", cluster(netpol("n", allow()), cnp(baseline, 1, "b", deny())), with("Allow", fromA)},
		{"S144 then Baseline", cluster(cnp(baseline, 1, "b", deny())), with("Deny", fromA)},
		{"S144 then allowed", cluster(), with("Allow", fromA)},
		{"S145 priority", cluster(cnp(admin, 10, "a", deny()), cnp(admin, 9, "b", allow())), with("Allow", fromA)},
		{"S145 order of rules", cluster(cnp(admin, 10, "a", allow(), deny())), with("Allow", fromA)},
		{
			"S145 equal priority", cluster(cnp(admin, 10, "b", deny()), cnp(admin, 10, "a", allow())),
			with("Allow", fromA),
		},
		{"S146 no match continues", cluster(cnp(admin, 10, "a", nets(policy.Deny, "172.16.0.0/12")),
			cnp(baseline, 1, "b", nets(policy.Deny, "172.16.0.0/12"))), with("Allow", fromA)},
		{
			"S147 Pass skips later rules of Admin",
			cluster(cnp(admin, 1, "a", pass()), cnp(admin, 2, "b", deny()), netpol("n", allow())), with("Allow", fromA),
		},
		{"S147 then Baseline", cluster(cnp(admin, 1, "a", pass()), cnp(admin, 2, "b", allow()),
			cnp(baseline, 1, "c", deny())), with("Deny", fromA)},
		{"S148 NetworkPolicy is final", cluster(netpol("n", nets(policy.Allow, "172.16.0.0/12")),
			cnp(baseline, 1, "c", allow())), with("Deny", fromA)},
		{"S149 but not for the other direction", cluster(netpol("n"), func() policy.Resource {
			p := in(baseline, 1, egress("c", deny()))
			p.NamespaceSelector = "all()"
			return p
		}()), with("Deny", "tcp 10.0.0.1 10.0.0.2:80")},
		{
			"S150 networks match pods", cluster(cnp(admin, 1, "a", nets(policy.Deny, "0.0.0.0/0"))),
			expect(with("Deny", fromA, fromB, fromOut), with("Allow", "tcp fd00::2 fd00::1")),
		},
		{
			"S151 nodes by address", cluster(cnp(admin, 1, "a", nets(policy.Deny, "192.0.2.1/32"))),
			expect(with("Deny", fromHost), with("Allow", fromA, fromB)),
		},
		{
			"S151 namespaces exclude what is on the host network",
			cluster(cnp(admin, 1, "a", peers(policy.Deny, "all()"))),
			expect(with("Allow", fromHost, fromOut), with("Deny", fromA, fromB)),
		},
		{
			"S152 the subject is in a namespace", cluster(host, cnp(admin, 1, "a", deny())),
			expect(with("Allow", "tcp 10.0.0.2 192.0.2.1:80"), with("Deny", fromA)),
		},
		{
			"S153 all protocols", cluster(cnp(admin, 1, "a", peers(policy.Deny, `team == "red"`))),
			with("Deny", fromA, "udp 10.0.0.2 10.0.0.1:1", "253 10.0.0.2 10.0.0.1"),
		},
		{
			"S153 all TCP ports",
			cluster(cnp(admin, 1, "a", policy.Rule{Action: policy.Deny, Protocol: policy.ProtocolTCP})),
			expect(with("Deny", fromA), with("Allow", "udp 10.0.0.2 10.0.0.1:80")),
		},
		{
			"S153 named port with the protocol of the receiver's",
			cluster(named, cnp(admin, 1, "a", policy.Rule{
				Action: policy.Deny, Destination: policy.EntityRule{Ports: []policy.Port{policy.PortName("dns")}},
			})), expect(with("Deny", "udp 10.0.0.2 10.0.0.1:53", "tcp 10.0.0.2 10.0.0.1:54"), with(
				"Allow", "tcp 10.0.0.2 10.0.0.1:53", "udp 10.0.0.2 10.0.0.1:54",
			)),
		},
		{
			"S154 a peer of an unknown kind: deny all", cluster(cnp(admin, 1, "a", deny())),
			with("Deny", fromA, fromB, fromOut),
		},
		{"S156 no ingress rules", cluster(func() policy.Resource {
			p := cnp(admin, 1, "a")
			p.Types, p.Egress = nil, []policy.Rule{deny()}
			return p
		}()), expect(with("Allow", fromA, fromOut), with("Deny", "tcp 10.0.0.1 198.51.100.9:80"))},
	})
	// S157: a changed priority takes effect.
	w := worldOf(cluster(cnp(admin, 60, "a", allow()), cnp(admin, 50, "b", deny()))...)
	require.Equal(t, verdict.Deny, verdict.Evaluate(w, flowOf(t, fromA)).Combined)
	w.Set(cnp(admin, 40, "a", allow()))
	require.Equal(t, verdict.Allow, verdict.Evaluate(w, flowOf(t, fromA)).Combined)
}
