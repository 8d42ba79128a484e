// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"testing"

	"github.com/wayleave/wayleave/policy"
)

// runRule evaluates one ingress allow rule at an endpoint with two addresses.
func runRule(t *testing.T, name string, r policy.Rule, flows ...string) {
	t.Helper()
	r.Action = policy.Allow
	run(t, []scenario{{name, []policy.Resource{wep("n/web", "10.0.0.1 fd00::1", "app=web"), ingress("p", r)}, flows}})
}

func icmp(numbers ...int) *policy.ICMP {
	m := &policy.ICMP{Type: &numbers[0]}
	if len(numbers) > 1 {
		m.Code = &numbers[1]
	}
	return m
}

func TestProtocols(t *testing.T) {
	const tcp4, tcp6 = "tcp 10.0.0.9 10.0.0.1", "tcp fd00::9 fd00::1"
	runRule(t, "S41 empty rule", policy.Rule{}, tcp4+" = Allow", tcp6+" = Allow", "253 10.0.0.9 10.0.0.1 = Allow")
	runRule(t, "S61 protocol by number", policy.Rule{Protocol: 6}, tcp4+" = Allow", "udp 10.0.0.9 10.0.0.1 = Deny")
	runRule(t, "S62 notProtocol", policy.Rule{NotProtocol: policy.ProtocolTCP},
		tcp4+" = Deny", "udp 10.0.0.9 10.0.0.1 = Allow", "icmp 10.0.0.9 10.0.0.1 8/0 = Allow",
		"253 10.0.0.9 10.0.0.1 = Allow")
	runRule(t, "S63 type 0 code 0", policy.Rule{Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
		ICMP: icmp(0, 0),
	}},
		"icmp 10.0.0.9 10.0.0.1 0/0 = Allow", "icmp 10.0.0.9 10.0.0.1 0/1 = Deny", "icmp 10.0.0.9 10.0.0.1 8/0 = Deny")
	runRule(t, "S64 type without code", policy.Rule{Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
		ICMP: icmp(3),
	}},
		"icmp 10.0.0.9 10.0.0.1 3/0 = Allow", "icmp 10.0.0.9 10.0.0.1 3/13 = Allow",
		"icmp 10.0.0.9 10.0.0.1 8/0 = Deny")
	runRule(t, "S64 negation of a pair", policy.Rule{Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
		NotICMP: icmp(3, 1),
	}},
		"icmp 10.0.0.9 10.0.0.1 3/1 = Deny", "icmp 10.0.0.9 10.0.0.1 3/2 = Allow", "icmp 10.0.0.9 10.0.0.1 8/1 = Allow")
	runRule(t, "S64 negation of a type", policy.Rule{Protocol: policy.ProtocolICMPv6, HeaderMatch: policy.HeaderMatch{
		NotICMP: icmp(128),
	}},
		"icmpv6 fd00::9 fd00::1 128/5 = Deny", "icmpv6 fd00::9 fd00::1 129/5 = Allow")
	runRule(t, "S66 ICMP is of IPv4", policy.Rule{Protocol: policy.ProtocolICMP},
		"icmp 10.0.0.9 10.0.0.1 8/0 = Allow", "icmp fd00::9 fd00::1 8/0 = Deny")
	runRule(t, "S66 ICMPv6 is of IPv6", policy.Rule{Protocol: policy.ProtocolICMPv6},
		"icmpv6 fd00::9 fd00::1 128/0 = Allow", "icmpv6 10.0.0.9 10.0.0.1 128/0 = Deny")
	runRule(t, "S67 IPv4 only", policy.Rule{IPVersion: 4}, tcp4+" = Allow", tcp6+" = Deny")
	runRule(t, "S67 IPv6 only", policy.Rule{IPVersion: 6}, tcp4+" = Deny", tcp6+" = Allow")
	runRule(t, "mapped addresses are IPv4", policy.Rule{IPVersion: 4}, "tcp ::ffff:10.0.0.9 ::ffff:10.0.0.1 = Allow")
}

func TestNets(t *testing.T) {
	from := func(nets, notNets string) policy.Rule {
		return allowFrom(policy.EntityRule{Nets: netsOf(nets), NotNets: netsOf(notNets)})
	}
	runRule(t, "S42 or, none of", from("10.1.0.0/16 10.2.0.0/16", ""),
		"tcp 10.1.0.1 10.0.0.1 = Allow", "tcp 10.2.0.1 10.0.0.1 = Allow", "tcp 10.3.0.1 10.0.0.1 = Deny")
	runRule(t, "S42 negated", from("", "10.1.0.0/16 10.2.0.0/16"),
		"tcp 10.1.0.1 10.0.0.1 = Deny", "tcp 10.2.0.1 10.0.0.1 = Deny", "tcp 10.3.0.1 10.0.0.1 = Allow",
		"tcp fd00::9 fd00::1 = Allow")
	runRule(t, "S43 both", from("10.1.0.0/16", "10.1.1.0/24"),
		"tcp 10.1.0.1 10.0.0.1 = Allow", "tcp 10.1.1.1 10.0.0.1 = Deny", "tcp 10.2.0.1 10.0.0.1 = Deny")
	runRule(t, "S68 no prefix of the family", from("10.1.0.0/16", ""), "tcp fd00::9 fd00::1 = Deny")
	runRule(t, "S68 both families", from("10.1.0.0/16 fd00::/64", ""),
		"tcp 10.1.0.1 10.0.0.1 = Allow", "tcp fd00::9 fd00::1 = Allow", "tcp fd01::9 fd00::1 = Deny")
	runRule(t, "S69 negated catch-all", from("", "0.0.0.0/0"), "tcp 10.1.0.1 10.0.0.1 = Deny",
		"tcp fd00::9 fd00::1 = Allow")
	runRule(t, "S69 negated catch-all of IPv6", from("", "::/0"), "tcp 10.1.0.1 10.0.0.1 = Allow",
		"tcp fd00::9 fd00::1 = Deny")
	runRule(t, "S70 any IPv4 is not any", from("0.0.0.0/0", ""), "tcp 10.1.0.1 10.0.0.1 = Allow",
		"tcp fd00::9 fd00::1 = Deny")
	runRule(t, "S71 host bits", from("12.1.0.0/8", ""), "tcp 12.9.0.1 10.0.0.1 = Allow")
	runRule(t, "destination", policy.Rule{Destination: policy.EntityRule{Nets: netsOf("fd00::/64")}},
		"tcp 10.1.0.1 10.0.0.1 = Deny", "tcp fd00::9 fd00::1 = Allow")
}

func TestNumericPorts(t *testing.T) {
	to := func(proto policy.Protocol, ports, notPorts []policy.Port) policy.Rule {
		return allowTo(proto, policy.EntityRule{Ports: ports, NotPorts: notPorts})
	}
	n, r := policy.PortNumber, policy.PortRange
	at := func(port string) string { return "tcp 10.0.0.9 10.0.0.1:" + port }
	runRule(t, "S47 S49 ports and ranges", to(6, []policy.Port{n(80), r(90, 92)}, nil),
		at("80 = Allow"), at("90 = Allow"), at("92 = Allow"), at("89 = Deny"), at("93 = Deny"),
		"udp 10.0.0.9 10.0.0.1:80 = Deny")
	runRule(t, "S48 negated", to(6, nil, []policy.Port{n(80), r(90, 92)}),
		at("80 = Deny"), at("91 = Deny"), at("81 = Allow"), "udp 10.0.0.9 10.0.0.1:81 = Deny")
	runRule(t, "S46 conflict", to(6, []policy.Port{n(80), n(81)}, []policy.Port{n(80)}), at("80 = Deny"),
		at("81 = Allow"))
	runRule(t, "S50 all ports", to(6, []policy.Port{r(1, 65535)}, nil), at("1 = Allow"), at("65535 = Allow"),
		at("0 = Deny"))
	runRule(t, "S50 the last port", to(6, []policy.Port{n(65535)}, nil), at("65535 = Allow"), at("65534 = Deny"))
	runRule(t, "S60 SCTP", to(132, []policy.Port{n(80)}, nil), "sctp 10.0.0.9 10.0.0.1:80 = Allow",
		"sctp 10.0.0.9 10.0.0.1:81 = Deny")
	runRule(t, "source ports", policy.Rule{Protocol: 17, Source: policy.EntityRule{Ports: []policy.Port{n(53)}}},
		"udp 10.0.0.9:53 10.0.0.1:9 = Allow", "udp 10.0.0.9:54 10.0.0.1:53 = Deny")
}

// namedPorts returns endpoints with named ports, and a policy of one rule.
func namedPorts(t *testing.T, r policy.Rule) []policy.Resource {
	t.Helper()
	return []policy.Resource{
		withPorts(t, wep("n/web", "10.0.0.1 fd00::1", "app=web"), "http/tcp/80 http/tcp/8080 http/udp/81"),
		withPorts(t, wep("n/api", "10.0.0.2", "app=web role=api"), "http/tcp/90 http/sctp/91"),
		withPorts(t, wep("n/old", "10.0.0.2", "role=old"), "http/tcp/92"),
		set("nets", "10.0.0.0/8", "app=web"),
		&policy.Policy{Name: "p", Ingress: []policy.Rule{r}},
	}
}

func TestNamedPorts(t *testing.T) {
	named := []policy.Port{policy.PortName("http")}
	to := func(proto policy.Protocol, e policy.EntityRule) []policy.Resource {
		return namedPorts(t, allowTo(proto, e))
	}
	run(t, []scenario{
		{
			"S45 a name or a number",
			to(6, policy.EntityRule{Ports: []policy.Port{policy.PortName("http"), policy.PortNumber(443)}}),
			[]string{
				"tcp 10.0.0.9 10.0.0.1:80 = Allow", "tcp 10.0.0.9 10.0.0.1:443 = Allow",
				"tcp 10.0.0.9 10.0.0.1:444 = Deny",
			},
		},
		{
			"S46 none of name and number",
			to(6, policy.EntityRule{NotPorts: []policy.Port{policy.PortName("http"), policy.PortNumber(443)}}),
			[]string{
				"tcp 10.0.0.9 10.0.0.1:80 = Deny", "tcp 10.0.0.9 10.0.0.1:443 = Deny",
				"tcp 10.0.0.9 10.0.0.1:444 = Allow",
			},
		},
		{"S51 a name brings its protocol", to(0, policy.EntityRule{Ports: named}), []string{
			"tcp 10.0.0.9 10.0.0.1:80 = Allow", "udp 10.0.0.9 10.0.0.1:81 = Allow", "tcp 10.0.0.9 10.0.0.1:81 = Deny",
			"sctp 10.0.0.9 10.0.0.2:91 = Allow", "icmp 10.0.0.9 10.0.0.1 = Deny", "253 10.0.0.9 10.0.0.1 = Deny",
		}},
		{"S52 name and protocol", to(6, policy.EntityRule{Ports: named}), []string{
			"tcp 10.0.0.9 10.0.0.1:80 = Allow", "udp 10.0.0.9 10.0.0.1:81 = Deny", "tcp 10.0.0.9 10.0.0.1:81 = Deny",
		}},
		{
			"S53 one name twice", to(6, policy.EntityRule{Ports: named}),
			[]string{"tcp 10.0.0.9 10.0.0.1:80 = Allow", "tcp 10.0.0.9 10.0.0.1:8080 = Allow"},
		},
		{
			"S54 no cross product", to(6, policy.EntityRule{Ports: named}),
			[]string{
				"tcp 10.0.0.9 10.0.0.2:90 = Allow", "tcp 10.0.0.9 10.0.0.2:80 = Deny",
				"tcp 10.0.0.9 10.0.0.1:90 = Deny",
			},
		},
		{
			"S55 a shared address has the ports of both", to(6, policy.EntityRule{Ports: named}),
			[]string{"tcp 10.0.0.9 10.0.0.2:90 = Allow", "tcp 10.0.0.9 10.0.0.2:92 = Allow"},
		},
		{"S56 both families", to(6, policy.EntityRule{Ports: named}), []string{
			"tcp fd00::9 [fd00::1]:80 = Allow", "tcp fd00::9 [fd00::1]:81 = Deny",
		}},
		{
			"S57 the positive selector filters", to(6, policy.EntityRule{Ports: named, Selector: `app == "web"`}),
			[]string{"tcp 10.0.0.9 10.0.0.2:90 = Allow", "tcp 10.0.0.9 10.0.0.2:92 = Deny"},
		},
		{
			"S57 the positive selector filters negated names",
			to(6, policy.EntityRule{NotPorts: named, Selector: `app == "web"`}),
			[]string{"tcp 10.0.0.9 10.0.0.2:90 = Deny", "tcp 10.0.0.9 10.0.0.2:92 = Allow"},
		},
		{
			"S57 the negated selector never filters",
			to(6, policy.EntityRule{NotPorts: named, NotSelector: `role == "other"`}),
			[]string{"tcp 10.0.0.9 10.0.0.2:90 = Deny", "tcp 10.0.0.9 10.0.0.2:92 = Deny"},
		},
		{
			"S57 nor beside a positive one",
			to(6, policy.EntityRule{NotPorts: named, Selector: "has(role)", NotSelector: `role == "old"`}),
			[]string{
				"tcp 10.0.0.9 10.0.0.2:90 = Deny", "tcp 10.0.0.9 10.0.0.2:92 = Deny",
				"tcp 10.0.0.9 10.0.0.2:93 = Allow",
			},
		},
		{
			"S59 an undefined name", to(6, policy.EntityRule{Ports: []policy.Port{policy.PortName("x")}}),
			[]string{"tcp 10.0.0.9 10.0.0.1:80 = Deny"},
		},
		{
			"S59 the same negated", to(0, policy.EntityRule{NotPorts: []policy.Port{policy.PortName("x")}}),
			[]string{
				"tcp 10.0.0.9 10.0.0.1:80 = Allow", "253 10.0.0.9 10.0.0.1 = Allow", "icmp 10.0.0.9 10.0.0.1 = Allow",
			},
		},
		{
			"negated name without protocol", to(0, policy.EntityRule{NotPorts: named}),
			[]string{
				"tcp 10.0.0.9 10.0.0.1:80 = Deny", "udp 10.0.0.9 10.0.0.1:80 = Allow", "253 10.0.0.9 10.0.0.1 = Allow",
			},
		},
	})
	runIngress(t, scenario{
		"source", namedPorts(t, policy.Rule{Action: policy.Allow, Source: policy.EntityRule{Ports: named}}),
		[]string{
			"tcp 10.0.0.2:90 10.0.0.1:5 = Allow", "tcp 10.0.0.2:80 10.0.0.1:80 = Deny",
			"udp 10.0.0.8:81 10.0.0.1:81 = Deny",
		},
	})
}

func TestSelectors(t *testing.T) {
	fe, be := `role == "fe"`, `role == "be"`
	world := func(name string, e policy.EntityRule) []policy.Resource {
		return []policy.Resource{
			profile("kns.n", "pcns.env=prod role=be"),
			profile("kns.m", "pcns.env=test"), profile("ksa.n.bot", "pcsa.kind=bot"),
			wep("n/web", "10.0.0.1 fd00::1", "app=web"),
			wep("n/fe", "10.0.1.1 fd00:1::1", "role=fe projectcalico.org/serviceaccount=bot", "kns.n", "ksa.n.bot"),
			wep("n/be", "10.0.1.2", "x=y", "kns.n"), wep("m/fe", "10.0.1.3", "role=fe", "kns.m"),
			wep("m/fe2", "10.0.1.2", "", "kns.m"),
			wep("g", "10.0.1.4", "role=fe"),
			set("nets", "20.0.0.0/8", "role=fe"), set("m/nets", "21.0.0.0/8 10.0.1.9/32", "role=fe"),
			set("all6", "::/0", "role=any"), ingress(name, allowFrom(e)),
		}
	}
	// The sources are in the order of the outcomes below: n/fe, n/be, m/fe, g, a global set, a set
	// of m, no object. The endpoint m/fe2 has the same address as n/be.
	sources := []string{"10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.1.4", "20.1.1.1", "10.0.1.9", "9.9.9.9"}
	accounts := func(selector string, names ...string) *policy.ServiceAccounts {
		return &policy.ServiceAccounts{Names: names, Selector: selector}
	}
	for _, c := range []struct {
		name, policy string
		e            policy.EntityRule
		want         string // + for Allow
	}{
		{"no limit", "p", policy.EntityRule{}, "+++++++"},
		{"selector", "p", policy.EntityRule{Selector: fe}, "+-++++-"},
		{"all() is any endpoint and set, not any address", "p", policy.EntityRule{Selector: "all()"}, "++++++-"},
		{"S82 inherited label, an own one takes precedence", "p", policy.EntityRule{Selector: be}, "-+-----"},
		{"S75 a shared address", "p", policy.EntityRule{Selector: `x == "y"`}, "-+-----"},
		{
			"S75 a shared address, the other", "p",
			policy.EntityRule{Selector: `projectcalico.org/namespace == "m"`},
			"-++--+-",
		},
		{"S72 S74 notSelector alone", "p", policy.EntityRule{NotSelector: fe}, "-+----+"},
		{"S75 notSelector of a shared address", "p", policy.EntityRule{NotSelector: be}, "+-+++++"},
		{"S73 both", "p", policy.EntityRule{Selector: "has(role)", NotSelector: be}, "+-++++-"},
		{"S73 both, of one object", "p", policy.EntityRule{Selector: "all()", NotSelector: be}, "++++++-"},
		{"S92 a selector that matches nothing", "p", policy.EntityRule{Selector: "has(none)"}, "-------"},
		{"S92 the same negated", "p", policy.EntityRule{NotSelector: "has(none)"}, "+++++++"},
		{"namespaced: own namespace", "n/p", policy.EntityRule{Selector: fe}, "+------"},
		{"namespaced: no selector, no limit", "n/p", policy.EntityRule{}, "+++++++"},
		{"namespaced: notSelector is within the namespace", "n/p", policy.EntityRule{NotSelector: fe}, "-+-----"},
		{"namespaced: any namespace", "n/p", policy.EntityRule{Selector: fe, NamespaceSelector: "all()"}, "+-+--+-"},
		{"namespaced: no namespace", "n/p", policy.EntityRule{Selector: fe, NamespaceSelector: "global()"}, "---++--"},
		{"namespaced: other namespaces", "n/p", policy.EntityRule{NamespaceSelector: `env == "test"`}, "-++----"},
		{"namespaceSelector alone", "p", policy.EntityRule{NamespaceSelector: `env == "prod"`}, "++-----"},
		{"namespaceSelector !=", "p", policy.EntityRule{NamespaceSelector: `env != "prod"`}, "-+++++-"},
		{
			"namespaceSelector and notSelector", "p",
			policy.EntityRule{NamespaceSelector: "all()", NotSelector: fe},
			"-+-----",
		},
		{
			"global() and notSelector", "p",
			policy.EntityRule{NamespaceSelector: "global()", NotSelector: "has(x)"},
			"---++--",
		},
		{"service account by name", "p", policy.EntityRule{ServiceAccounts: accounts("", "bot", "cat")}, "+------"},
		{"service account by label", "p", policy.EntityRule{ServiceAccounts: accounts(`kind == "bot"`)}, "+------"},
		{
			"service account by label, negated", "p",
			policy.EntityRule{ServiceAccounts: accounts(`kind != "bot"`)},
			"-+++++-",
		},
		{
			"S44 service account by name and label", "p",
			policy.EntityRule{ServiceAccounts: accounts(`kind == "cat"`, "bot")},
			"-------",
		},
		{"service account: own namespace", "m/p", policy.EntityRule{ServiceAccounts: accounts("", "bot")}, "-------"},
		{"nets and selector", "p", policy.EntityRule{Selector: fe, Nets: netsOf("10.0.0.0/8")}, "+-++-+-"},
	} {
		s := scenario{name: c.name, world: world(c.policy, c.e)}
		if c.policy == "m/p" {
			s.world = append(s.world, wep("m/web", "10.0.0.1", "app=web"))
		}
		for i, src := range sources {
			want := map[byte]string{'+': "Allow", '-': "Deny"}[c.want[i]]
			s.flows = append(s.flows, "tcp "+src+" 10.0.0.1 = "+want)
		}
		t.Run("", func(t *testing.T) { runIngress(t, s) })
	}
}

// A selector that is true without a label matches objects without a namespace or account.
func TestNegativeSelectors(t *testing.T) {
	from := func(namespaces, accounts string) []policy.Resource {
		e := policy.EntityRule{NamespaceSelector: namespaces}
		if accounts != "" {
			e.ServiceAccounts = &policy.ServiceAccounts{Selector: accounts}
		}
		return []policy.Resource{
			wep("n/web", "10.0.0.1", "app=web"), ingress("p", allowFrom(e)), set("world", "0.0.0.0/0", ""),
			by("192.0.2.1", hep("h", "eth0", "")), profile("prod", "pcns.env=prod pcsa.role=bot"),
			wep("prod/a", "2001:db8::1", "", "prod"), wep("test/b", "2001:db8::2", ""),
			wep("n/v6", "fd00::1", "app=web"), &policy.Policy{Name: "out", Egress: []policy.Rule{allow()}},
		}
	}
	const stranger, node = "tcp 198.51.100.9 10.0.0.1", "tcp 192.0.2.1 10.0.0.1"
	const prod, other = "tcp 2001:db8::1 fd00::1", "tcp 2001:db8::2 fd00::1"
	run(t, []scenario{
		{"namespaces", from(`env != "prod"`, ""), expect(with("Allow", stranger, node, other), with("Deny", prod))},
		{
			"namespaces, without a label", from(`!has(env)`, ""),
			expect(with("Allow", stranger, node, other), with("Deny", prod)),
		},
		{
			"in a namespace", from(`all() && env != "prod"`, ""),
			expect(with("Allow", other), with("Deny", stranger, node, prod)),
		},
		{"accounts", from("", `role != "bot"`), expect(with("Allow", stranger, node, other), with("Deny", prod))},
	})
}
