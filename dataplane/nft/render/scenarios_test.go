// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// mergeableRules returns rules of which some neighbours differ only in one list.
func mergeableRules() []dataplane.Rule {
	to := func(id string, action policy.Action, ports ...uint16) dataplane.Rule {
		r := dataplane.Rule{ID: id, Action: action, Protocol: policy.ProtocolTCP}
		for _, p := range ports {
			r.Destination.Ports = append(r.Destination.Ports, policy.PortNumber(p))
		}
		return r
	}
	from := func(r dataplane.Rule, list ...string) dataplane.Rule {
		r.Source.Nets = nfttest.Nets(list...)
		return r
	}
	return []dataplane.Rule{
		to("a80", policy.Allow, 80), to("a81", policy.Allow, 81, 443), to("a82", policy.Allow, 8080),
		to("d1", policy.Deny, 1), to("d2", policy.Deny, 2),
		from(to("n1", policy.Allow, 22), "10.0.0.0/8"), from(to("n2", policy.Allow, 22), "fd00::/8", "192.168.0.0/16"),
		from(to("n3", policy.Allow, 23), "172.16.0.0/12"), // it differs in two lists
		to("any", policy.Allow),                           // no list of ports matches more than a list
		to("l1", policy.Log, 5), to("l2", policy.Log, 6),
		to("last", policy.Deny, 7),
	}
}

// natState has pools of which one is translated, nodes, and workloads with floating addresses.
func natState() dptest.State {
	s := nfttest.InSync()
	pool := func(name, cidr string, out bool) {
		s.Pools[name] = &dataplane.Pool{
			Name: name, CIDR: netip.MustParsePrefix(cidr), Type: dataplane.PoolDirect, NATOutgoing: out,
		}
	}
	pool("a", "10.0.0.0/16", true)
	pool("b", "10.1.0.0/16", false)
	pool("nested", "10.0.7.0/24", true)
	pool("six", "fd00::/48", true)
	s.Nodes["n1"] = &dataplane.Node{Name: "n1", Addresses: nfttest.Nets("192.0.2.1/24", "2001:db8::1/64")}
	s.Profiles["all"] = &dataplane.Profile{
		Ingress: []dataplane.Rule{nfttest.AllowAll("in")}, Egress: []dataplane.Rule{nfttest.AllowAll("out")},
	}
	for i, name := range []string{"web1", "web2"} {
		inside := netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
		s.Endpoints[nfttest.EndpointKey(name)] = &dataplane.Endpoint{
			Interface: "way" + name, Addresses: []netip.Addr{inside}, Profiles: []string{"all"},
			NATs: []policy.IPNAT{{InternalIP: inside, ExternalIP: netip.MustParseAddr("203.0.113.1")}},
		}
	}
	return s
}

// natOptions returns the configuration for natState.
func natOptions() render.Config {
	return render.Config{NAT: render.NATConfig{
		Source4: netip.MustParseAddr("192.0.2.77"), FirstPort: 10000, LastPort: 20000,
		Exclude:      nfttest.Nets("172.16.0.0/12"),
		ExcludeNodes: true,
	}}
}

// hostState has four workloads. Policy allows everything to way1, and nothing to way2. way3 is
// down, and way4 may send from more than its own addresses.
func hostState() dptest.State {
	s := nfttest.InSync()
	s.Profiles["all"] = &dataplane.Profile{
		Ingress: []dataplane.Rule{nfttest.AllowAll("in")}, Egress: []dataplane.Rule{nfttest.AllowAll("out")},
	}
	for i, name := range []string{"way1", "way2", "way3", "way4"} {
		e := &dataplane.Endpoint{Interface: name, Addresses: []netip.Addr{
			netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), netip.MustParseAddr("fd00::" + string(rune('1'+i))),
		}}
		if i != 1 {
			e.Profiles = []string{"all"}
		}
		e.Down = i == 2
		if i == 3 {
			e.AllowedSources = nfttest.Nets("192.168.7.0/24", "fd77::/64")
		}
		s.Endpoints[nfttest.EndpointKey(name)] = e
	}
	return s
}

// scenario is a small state with golden files that have its table with lookups and with chains.
type scenario struct {
	Name    string
	Config  render.Config
	Batches []dataplane.Batch
	// Ports maps interfaces to their bridges.
	Ports map[string]string
}

// rendered returns the table of the scenario, and the errors of the renderer. The table must be
// valid.
func (s scenario) rendered(t testing.TB) (*ruleset.Table, []error) {
	t.Helper()
	r, err := render.New(s.Config)
	require.NoError(t, err)
	r.SetInterfaces(ports(s.Ports))
	for _, b := range s.Batches {
		r.Update(b)
	}
	table, errs := r.Table()
	require.NoError(t, table.Validate())
	return table, errs
}

// ports returns the interfaces of Ports.
func ports(of map[string]string) map[string]render.Interface {
	out := map[string]render.Interface{}
	for name, bridge := range of {
		out[name] = render.Interface{Master: render.Master{Name: bridge, Kind: "bridge"}}
	}
	return out
}

// golden returns the path of the file with the scenario's table.
func (s scenario) golden(dir string) string {
	return filepath.Join(dir, "golden", nfttest.FormName(s.Config.Classes), s.Name+".nft")
}

// scenarios returns all scenarios. The name of each is its topic.
func scenarios(classes render.ClassesConfig) []scenario {
	one := func(name string, cfg render.Config, s dptest.State) scenario {
		cfg.Classes = classes
		return scenario{Name: name, Config: cfg, Batches: []dataplane.Batch{nfttest.Transition(s)}}
	}
	plain := render.Config{}
	return []scenario{
		one("empty", plain, nfttest.InSync()),
		one("example", plain, exampleState()),
		one("tiers", plain, tiersState()),
		one("staged", plain, stagedState()),
		one("nets", plain, nfttest.RulesState(netRules()...)),
		one("ports", plain, nfttest.RulesState(portRules()...)),
		one("icmp", plain, nfttest.RulesState(icmpRules()...)),
		one("sets", plain, setsState()),
		one("down", plain, downState()),
		one("names", plain, namesState()),
		one("host", render.Config{
			Table: "other", InterfacePrefix: "cali", EgressPriority: -99, IngressPriority: 5, LogPrefix: "other",
			Host: policy.HostConfig{EndpointToHostAction: policy.HostAccept, KeepInvalid: true},
		}, tiersState()),
		one("merged", plain, nfttest.RulesState(mergeableRules()...)),
		one("sources", plain, hostState()),
		one("hosts", plain, hostsState()),
		one("failsafes", render.Config{Host: policy.HostConfig{
			FailsafeInbound: []policy.Failsafe{
				{Protocol: policy.ProtocolTCP, Port: 22, Net: nfttest.Nets("10.0.0.0/8")[0]},
				{Protocol: policy.ProtocolUDP, Port: 68},
			},
			FailsafeOutbound: []policy.Failsafe{{
				Protocol: policy.ProtocolUDP, Port: 53, Net: nfttest.Nets("fd00::/8")[0],
			}},
		}}, hostsState()),
		one("nat", natOptions(), natState()),
		one("node-encapsulations", render.Config{Host: policy.HostConfig{
			VXLANFromNodesOnly: true, IPIPFromNodesOnly: true,
		}}, natState()),
		one("options", render.Config{
			AllowDHCP: true, ReversePath: true, Reject: true, Counters: true, LogRate: 2,
			VerdictLog: render.VerdictLog{Enabled: true, Group: 3},
			Host: policy.HostConfig{
				HostToEndpointAction: policy.HostDrop, AllowIPIPFromWorkloads: true, VXLANPort: 8472,
			},
		}, tiersState()),
		one("counted", render.Config{Counters: true}, nfttest.RulesState(nfttest.CountedRules()...)),
		one("hosts-counted", render.Config{Counters: true}, hostsState()),
		one("logged", render.Config{VerdictLog: render.VerdictLog{Enabled: true}}, exampleState()),
		one("open", render.Config{
			DenyNeighbourDiscovery: true, Reject: true,
			Host: policy.HostConfig{
				HostToEndpointAction: policy.HostReturn, EndpointToHostAction: policy.HostReturn,
				AllowVXLANFromWorkloads: true, AllowIPIPFromWorkloads: true,
			},
		}, hostsState()),
		{
			Name: "bridged", Config: render.Config{Classes: classes, Bridges: []string{"br0", "br1"}, AllowDHCP: true},
			Batches: []dataplane.Batch{nfttest.Transition(hostState())},
			Ports:   map[string]string{"way1": "br0", "way2": "br0", "way3": "br0"},
		},
		{Name: "steps", Config: render.Config{Classes: classes}, Batches: []dataplane.Batch{
			nfttest.Transition(tiersState()), dptest.Transition(tiersState(), stagedState()),
		}},
	}
}

// exampleState is the worked example of docs/nft.md.
func exampleState() dptest.State {
	s := nfttest.InSync()
	s.Sets["s:frontend"] = nfttest.NetSet("10.0.0.2/32", "10.0.0.3/32")
	s.Sets["s:shop"] = nfttest.NetSet("10.0.0.3/32", "10.0.0.9/32")
	from := func(id string, set dataplane.IPSetID, to ...policy.Port) dataplane.Rule {
		return dataplane.Rule{
			ID: id, Action: policy.Allow, Protocol: policy.ProtocolTCP,
			Source: dataplane.Match{Sets: []dataplane.IPSetID{set}}, Destination: dataplane.Match{Ports: to},
		}
	}
	s.Policies[nfttest.PolicyKey("allow-web")] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		from("web", "s:frontend", policy.PortNumber(80), policy.PortNumber(443)),
		{ID: "never", Action: policy.Deny, Source: dataplane.Match{Nets: nfttest.Nets("192.0.2.0/24")}},
	}}
	s.Policies[nfttest.PolicyKey("monitoring")] = &dataplane.Policy{
		Tier: "default", Ingress: []dataplane.Rule{from("metrics", "s:shop", policy.PortNumber(9100))},
	}
	s.Endpoints[nfttest.EndpointKey("web-1")] = &dataplane.Endpoint{
		Interface: "way0", Addresses: nfttest.Addresses("10.0.0.1"), Ingress: []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny,
			Policies: []policy.Key{nfttest.PolicyKey("allow-web"), nfttest.PolicyKey("monitoring")},
		}},
	}
	return s
}

// hostsState has host endpoints by name, by address and for all interfaces, with policy of every
// kind (S105-S115, S121-S123).
func hostsState() dptest.State {
	s := hostState()
	key := func(name string) policy.Key { return policy.Key{Kind: policy.KindPolicy, Name: name} }
	tier := func(action policy.Action, name string) []dataplane.TierPolicies {
		return []dataplane.TierPolicies{{Tier: "default", DefaultAction: action, Policies: []policy.Key{key(name)}}}
	}
	tcp := func(id string, action policy.Action, port uint16) dataplane.Rule {
		return dataplane.Rule{ID: id, Action: action, Protocol: policy.ProtocolTCP, Destination: dataplane.Match{
			Ports: nfttest.PortList(policy.PortNumber(port)), Nets: nfttest.Nets("192.0.2.0/24", "2001:db8::/64"),
		}}
	}
	back := dataplane.Rule{
		ID: "raw-out", Action: policy.Allow, Protocol: policy.ProtocolTCP,
		Source: dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(80))},
	}
	s.Policies[key("normal")] = &dataplane.Policy{
		Tier: "default", Ingress: []dataplane.Rule{tcp("normal-in", policy.Allow, 443)},
		Egress: []dataplane.Rule{nfttest.AllowAll("normal-out")},
	}
	s.Policies[key("forward")] = &dataplane.Policy{
		Tier: "default", Forward: true, Ingress: []dataplane.Rule{tcp("forward-in", policy.Allow, 80)},
		Egress: []dataplane.Rule{tcp("forward-out", policy.Deny, 25)},
	}
	s.Policies[key("raw")] = &dataplane.Policy{
		Tier: "default", Untracked: true, Ingress: []dataplane.Rule{tcp("raw-in", policy.Allow, 80)},
		Egress: []dataplane.Rule{back},
	}
	s.Policies[key("prednat")] = &dataplane.Policy{
		Tier: "default", PreDNAT: true,
		Ingress: []dataplane.Rule{{ID: "log", Action: policy.Log}, tcp("nodeport", policy.Allow, 30080)},
	}
	host := func(name string, h *dataplane.HostEndpoint) {
		s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: name}] = h
	}
	host("all", &dataplane.HostEndpoint{
		Interface: "*", PreDNATIngress: tier(policy.Pass, "prednat"), ForwardIngress: tier(policy.Deny, "forward"),
		ForwardEgress: tier(policy.Deny, "forward"),
	})
	host("eth0", &dataplane.HostEndpoint{
		Interface: "eth0", Ingress: tier(policy.Deny, "normal"), Egress: tier(policy.Deny, "normal"),
		Profiles:         []string{"all"},
		UntrackedIngress: tier(policy.Pass, "raw"), UntrackedEgress: tier(policy.Pass, "raw"),
		PreDNATIngress: tier(policy.Pass, "prednat"),
		ForwardIngress: tier(policy.Deny, "forward"),
	})
	host("mgmt", &dataplane.HostEndpoint{Addresses: nfttest.Addresses("192.0.2.1")})
	return s
}

// tiersState has two endpoints that share a tier, a tier with Pass and Log, and one that passes by
// default (S21-S31).
func tiersState() dptest.State {
	s := nfttest.InSync()
	s.Sets["s:fe"] = nfttest.NetSet("10.0.1.1/32", "10.0.1.2/32", "fd00:1::1/128")
	s.Policies[nfttest.PolicyKey("web")] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{
			ID: "web-1", Action: policy.Allow, Protocol: policy.ProtocolTCP,
			Source:      dataplane.Match{Sets: []dataplane.IPSetID{"s:fe"}},
			Destination: dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(80))},
		},
		{ID: "web-2", Action: policy.Deny},
	}}
	s.Policies[nfttest.PolicyKey("none")] = &dataplane.Policy{Tier: "default"} // S27
	guard := policy.Key{Kind: policy.KindPolicy, Name: "guard"}
	s.Policies[guard] = &dataplane.Policy{
		Tier: "security",
		Ingress: []dataplane.Rule{
			{ID: "guard-1", Action: policy.Log, Protocol: policy.ProtocolUDP},
			{ID: "guard-2", Action: policy.Pass, Source: dataplane.Match{Nets: nfttest.Nets("10.0.0.0/8", "fd00::/8")}},
		},
		Egress: []dataplane.Rule{nfttest.AllowAll("guard-3")},
	}
	s.Profiles["kns.shop"] = &dataplane.Profile{
		Ingress: []dataplane.Rule{{ID: "kns-1", Action: policy.Pass, IPVersion: 6}, nfttest.AllowAll("kns-2")},
		Egress:  []dataplane.Rule{nfttest.AllowAll("kns-3")},
	}
	security := dataplane.TierPolicies{Tier: "security", DefaultAction: policy.Pass, Policies: []policy.Key{guard}}
	s.Endpoints[nfttest.EndpointKey("web1")] = &dataplane.Endpoint{
		Interface: "way1", Addresses: nfttest.Addresses("10.0.0.1", "fd00::1"), Profiles: []string{"kns.shop"},
		Ingress: []dataplane.TierPolicies{
			security,
			{
				Tier: "default", DefaultAction: policy.Deny,
				Policies: []policy.Key{nfttest.PolicyKey("web"), nfttest.PolicyKey("none")},
			},
		},
		Egress: []dataplane.TierPolicies{security},
	}
	s.Endpoints[nfttest.EndpointKey("web2")] = &dataplane.Endpoint{
		Interface: "tap2", Addresses: nfttest.Addresses("10.0.0.2"), Profiles: []string{"kns.shop"},
		Ingress: []dataplane.TierPolicies{security},
	}
	return s
}

// stagedState has a tier of only staged policies, and one with a staged policy among others (S20).
func stagedState() dptest.State {
	s := nfttest.InSync()
	staged := policy.Key{Kind: policy.KindStagedPolicy, Namespace: "shop", Name: "web"}
	s.Policies[staged] = &dataplane.Policy{Tier: "default", Staged: true, Ingress: []dataplane.Rule{
		{ID: "s", Action: policy.Deny},
	}}
	s.Policies[nfttest.PolicyKey("web")] = &dataplane.Policy{
		Tier: "default", Ingress: []dataplane.Rule{nfttest.AllowAll("w")},
	}
	s.Endpoints[nfttest.EndpointKey("web1")] = &dataplane.Endpoint{
		Interface: "way1", Addresses: nfttest.Addresses("10.0.0.1"),
		Ingress: []dataplane.TierPolicies{
			{Tier: "early", DefaultAction: policy.Deny, Policies: []policy.Key{staged}},
			{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{staged, nfttest.PolicyKey("web")}},
		},
	}
	return s
}

func netRules() []dataplane.Rule {
	from := func(id string, m dataplane.Match) dataplane.Rule {
		return dataplane.Rule{ID: id, Action: policy.Allow, Source: m}
	}
	return []dataplane.Rule{
		nfttest.AllowAll("S41-empty"),
		from("S42-or", dataplane.Match{Nets: nfttest.Nets("10.0.0.0/8", "192.168.0.0/16", "172.16.0.1/32")}),
		from("S43-and-not", dataplane.Match{
			Nets: nfttest.Nets("10.0.0.0/8"), NotNets: nfttest.Nets("10.1.0.0/16", "10.2.0.0/15", "10.9.0.0/16"),
		}),
		from("S44-sets", dataplane.Match{Sets: []dataplane.IPSetID{"s:a", "s:b"}, NotSets: []dataplane.IPSetID{"s:b"}}),
		from("S68-mixed", dataplane.Match{Nets: nfttest.Nets("10.0.0.0/9", "fd00::/9")}),
		from("S68-only-v6", dataplane.Match{Nets: nfttest.Nets("fd00::1/128")}),
		from("S69-not-any-v4", dataplane.Match{NotNets: nfttest.Nets("0.0.0.0/0", "fd00::/8")}),
		from("S69-halves", dataplane.Match{NotNets: nfttest.Nets("::/1", "8000::/1")}),
		from("S70-any-v4", dataplane.Match{Nets: nfttest.Nets("0.0.0.0/0")}),
		{ID: "S67-ipv6", Action: policy.Deny, IPVersion: 6},
		{ID: "S61-number", Action: policy.Allow, Protocol: 253},
		{ID: "S62-not-tcp", Action: policy.Allow, NotProtocol: policy.ProtocolTCP},
		{
			ID: "both-sides", Action: policy.Allow,
			Source:      dataplane.Match{Nets: nfttest.Nets("10.0.0.0/8", "10.3.0.0/16")},
			Destination: dataplane.Match{NotNets: nfttest.Nets("10.0.0.1/32"), Sets: []dataplane.IPSetID{"s:a"}},
		},
	}
}

// portRules returns rules with ports and sets of ports.
func portRules() []dataplane.Rule {
	to := func(id string, proto policy.Protocol, m dataplane.Match) dataplane.Rule {
		return dataplane.Rule{ID: id, Action: policy.Allow, Protocol: proto, Destination: m}
	}
	http, dns := []dataplane.IPSetID{"p:http"}, []dataplane.IPSetID{"p:dns"}
	return []dataplane.Rule{
		to("S47-many", policy.ProtocolTCP, dataplane.Match{Ports: nfttest.PortList(
			policy.PortNumber(443), policy.PortRange(80, 81), policy.PortNumber(82),
		)}),
		to("S50-all", policy.ProtocolUDP, dataplane.Match{Ports: nfttest.PortList(policy.PortRange(1, 65535))}),
		to("S50-last", policy.ProtocolSCTP, dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(65535))}),
		to("S45-or-named", policy.ProtocolTCP, dataplane.Match{
			Ports: nfttest.PortList(policy.PortNumber(80)), PortSets: http,
		}),
		to("S51-named-only", 0, dataplane.Match{PortSets: http}),
		to("S46-conflict", policy.ProtocolTCP, dataplane.Match{
			Ports: nfttest.PortList(policy.PortNumber(80)), NotPorts: nfttest.PortList(policy.PortNumber(80)),
		}),
		to("S48-not", policy.ProtocolTCP, dataplane.Match{
			NotPorts: nfttest.PortList(policy.PortNumber(22), policy.PortRange(100, 200)), NotPortSets: http,
		}),
		to("S57-not-named", 0, dataplane.Match{NotPortSets: dns}),
		{
			ID: "cross", Action: policy.Deny, Protocol: policy.ProtocolTCP,
			Source:      dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(1)), PortSets: http},
			Destination: dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(2)), PortSets: http},
		},
		{
			ID: "S28-log-once", Action: policy.Log, Protocol: policy.ProtocolTCP,
			Destination: dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(8080)), PortSets: http},
		},
	}
}

func icmpRules() []dataplane.Rule {
	i := func(list ...int) *policy.ICMP {
		if len(list) == 1 {
			return &policy.ICMP{Type: &list[0]}
		}
		return &policy.ICMP{Type: &list[0], Code: &list[1]}
	}
	return []dataplane.Rule{
		{ID: "S66-icmp", Action: policy.Allow, Protocol: policy.ProtocolICMP},
		{ID: "S66-icmpv6", Action: policy.Allow, Protocol: policy.ProtocolICMPv6},
		{ID: "S63-type-0", Action: policy.Allow, Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
			ICMP: i(0),
		}},
		{ID: "S63-code-0", Action: policy.Allow, Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
			ICMP: i(0, 0),
		}},
		{ID: "S64-not-pair", Action: policy.Allow, Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
			NotICMP: i(3, 4),
		}},
		{ID: "S64-not-type", Action: policy.Allow, Protocol: policy.ProtocolICMPv6, HeaderMatch: policy.HeaderMatch{
			NotICMP: i(128),
		}},
		{
			ID: "from-net", Action: policy.Allow, Protocol: policy.ProtocolICMPv6, HeaderMatch: policy.HeaderMatch{
				ICMP: i(128, 0),
			},
			Source: dataplane.Match{Nets: nfttest.Nets("fd00::/8")},
		},
		{ID: "no-protocol", Action: policy.Allow, HeaderMatch: policy.HeaderMatch{NotICMP: i(8)}},
	}
}

// setsState has sets of both shapes, with members inside others (S79-S92).
func setsState() dptest.State {
	rule := func(id string, set dataplane.IPSetID) dataplane.Rule {
		return dataplane.Rule{ID: id, Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{set}}}
	}
	s := nfttest.RulesState(
		rule("S79", "s:hosts"), rule("S86", "s:any"), rule("S88", "s:nested"), rule("S92", "s:empty"),
		dataplane.Rule{ID: "S92-not", Action: policy.Deny, Source: dataplane.Match{
			NotSets: []dataplane.IPSetID{"s:empty"},
		}},
		dataplane.Rule{ID: "S92-ports", Action: policy.Deny, Destination: dataplane.Match{
			PortSets: []dataplane.IPSetID{"p:empty"},
		}},
	)
	s.Sets["s:hosts"] = nfttest.NetSet("10.0.0.1/32", "10.0.0.2/32", "fd00::1/128")
	s.Sets["s:any"] = nfttest.NetSet("0.0.0.0/0", "0.0.0.0/1", "::/0", "10.0.0.1/32")
	s.Sets["s:nested"] = nfttest.NetSet("10.0.0.0/8", "10.1.0.0/16", "10.1.1.1/32", "11.0.0.0/8", "255.255.255.255/32",
		"fd00::/8", "fd00::1/128", "fe00::1/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120")
	s.Sets["s:empty"] = dptest.Set{}
	s.Sets["p:empty"] = dptest.Set{Type: dataplane.IPSetPorts}
	return s
}

// downState has an endpoint that is down (S35), one with a profile that denies everything (S34) and
// one without policies and profiles (S33).
func downState() dptest.State {
	s := nfttest.InSync()
	s.Profiles["gone"] = &dataplane.Profile{}
	s.Endpoints[nfttest.EndpointKey("down")] = &dataplane.Endpoint{
		Interface: "way1", Addresses: nfttest.Addresses("10.0.0.1", "fd00::1"), Down: true, Profiles: []string{"gone"},
	}
	s.Endpoints[nfttest.EndpointKey("denied")] = &dataplane.Endpoint{
		Interface: "way2", Addresses: nfttest.Addresses("10.0.0.2"), Profiles: []string{"gone"},
	}
	s.Endpoints[nfttest.EndpointKey("nothing")] = &dataplane.Endpoint{
		Interface: "veth3", Addresses: nfttest.Addresses("10.0.0.3"),
	}
	return s
}

// namesState has names that need escapes in nft.
func namesState() dptest.State {
	s := nfttest.InSync()
	odd := policy.Key{Kind: policy.KindPolicy, Namespace: "Größe", Name: `a "quoted" {name}; drop`}
	s.Sets["s:odd set"] = nfttest.NetSet("10.0.0.1/32")
	s.Policies[odd] = &dataplane.Policy{Tier: "tier with spaces", Egress: []dataplane.Rule{
		{ID: "id \"quoted\" $x \\ \n", Action: policy.Log, Source: dataplane.Match{
			Sets: []dataplane.IPSetID{"s:odd set"},
		}},
	}}
	s.Profiles[""] = &dataplane.Profile{}
	s.Endpoints[policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "a/b", Name: "c"}] = &dataplane.Endpoint{
		Interface: "way*", Addresses: nfttest.Addresses("10.0.0.1"), Profiles: []string{""},
		Egress: []dataplane.TierPolicies{{
			Tier: "tier with spaces", DefaultAction: policy.Deny, Policies: []policy.Key{odd},
		}},
	}
	return s
}
