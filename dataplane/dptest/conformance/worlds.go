// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// The states that the conformance kit applies. Each state is complete and in sync.

// emptyWorld holds nothing.
func emptyWorld() dptest.State {
	s := dptest.NewState()
	s.InSync = true
	return s
}

// smallWorld has one endpoint with a profile alone.
func smallWorld(interfaces [3]string) dptest.State {
	s := emptyWorld()
	s.Profiles["kns.shop"] = allowAll()
	s.Endpoints[endpointKey("c")] = &dataplane.Endpoint{
		Interface: interfaces[2],
		Addresses: []netip.Addr{netip.MustParseAddr("10.99.0.9")},
		Profiles:  []string{"kns.shop"},
	}
	return s
}

// fullWorld has objects of each kind and with each property. It has two families, sets of both
// types, an empty set, tiers with both default actions, a staged policy, and an endpoint that is
// down.
func fullWorld(interfaces [3]string) dptest.State {
	s := emptyWorld()
	s.Sets["s:clients"] = nets("10.1.0.0/16", "10.1.2.3/32", "10.99.0.3/32", "fd00:1::/64", "fd00:99::3/128")
	s.Sets["s:nobody"] = nets()
	s.Sets["p:http"] = dptest.Set{Type: dataplane.IPSetPorts, Members: []dataplane.Member{
		portMember("10.99.0.1", policy.ProtocolTCP, 8080), portMember("10.99.0.2", policy.ProtocolTCP, 80),
		portMember("fd00:99::1", policy.ProtocolTCP, 8080),
	}}
	s.Profiles["kns.shop"] = allowAll()
	s.Profiles["ksa.shop.web"] = &dataplane.Profile{Egress: []dataplane.Rule{{ID: "sa1", Action: policy.Deny}}}
	guard := policy.Key{Kind: policy.KindPolicy, Name: "guard"}
	web := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "web"}
	trial := policy.Key{Kind: policy.KindStagedPolicy, Namespace: "shop", Name: "web"}
	s.Policies[guard] = guardPolicy()
	s.Policies[web] = webPolicy()
	s.Policies[trial] = &dataplane.Policy{
		Tier: "default", Staged: true, Ingress: []dataplane.Rule{{ID: "t1", Action: policy.Deny}},
	}
	tiers := []dataplane.TierPolicies{
		{Tier: "guard", DefaultAction: policy.Pass, Policies: []policy.Key{guard}},
		{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{web, trial}},
	}
	s.Endpoints[endpointKey("a")] = endpoint(interfaces[0], "10.99.0.1", "fd00:99::1", tiers)
	s.Endpoints[endpointKey("b")] = endpoint(interfaces[1], "10.99.0.2", "fd00:99::2", tiers[1:])
	c := endpoint(interfaces[2], "10.99.0.3", "fd00:99::3", nil)
	c.Down = true
	s.Endpoints[endpointKey("c")] = c
	addNetwork(s)
	return s
}

// otherWorld is fullWorld with other members, rules, tiers and addresses. Of each kind, one object
// is removed and one added.
func otherWorld(interfaces [3]string) dptest.State {
	s := fullWorld(interfaces)
	s.Sets["s:clients"] = nets("10.1.0.0/16", "10.2.0.0/16", "fd00:99::3/128")
	s.Sets["p:dns"] = dptest.Set{
		Type: dataplane.IPSetPorts, Members: []dataplane.Member{portMember("10.99.0.2", policy.ProtocolUDP, 53)},
	}
	delete(s.Sets, "p:http")
	guard := policy.Key{Kind: policy.KindPolicy, Name: "guard"}
	web := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "web"}
	dns := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "dns"}
	s.Policies[dns] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{ID: "d1", Action: policy.Allow, Protocol: policy.ProtocolUDP, Destination: dataplane.Match{
			PortSets: []dataplane.IPSetID{"p:dns"},
		}},
	}}
	s.Policies[guard] = &dataplane.Policy{Tier: "guard", Ingress: []dataplane.Rule{{
		ID: "g9", Action: policy.Deny,
		Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:nobody"}, NotSets: []dataplane.IPSetID{"s:clients"}},
	}}}
	delete(s.Policies, web)
	delete(s.Policies, policy.Key{Kind: policy.KindStagedPolicy, Namespace: "shop", Name: "web"})
	delete(s.Profiles, "ksa.shop.web")
	tiers := []dataplane.TierPolicies{
		{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{dns}},
		{Tier: "guard", DefaultAction: policy.Deny, Policies: []policy.Key{guard}},
	}
	b := endpoint(interfaces[1], "10.99.0.22", "fd00:99::2", tiers)
	b.Profiles = []string{"kns.shop"}
	s.Endpoints[endpointKey("b")] = b
	delete(s.Endpoints, endpointKey("a"))
	c := endpoint(interfaces[2], "10.99.0.3", "fd00:99::3", tiers[1:])
	c.Profiles = nil
	s.Endpoints[endpointKey("c")] = c
	changeNetwork(s)
	return s
}

// swappedWorld is fullWorld with the interfaces of two endpoints swapped: each address is behind
// the other interface.
func swappedWorld(interfaces [3]string) dptest.State {
	s := fullWorld(interfaces)
	a, b := *s.Endpoints[endpointKey("a")], *s.Endpoints[endpointKey("b")]
	a.Interface, b.Interface = b.Interface, a.Interface
	s.Endpoints[endpointKey("a")], s.Endpoints[endpointKey("b")] = &a, &b
	return s
}

// renamedWorld is fullWorld with other keys for two endpoints. One of the new keys is greater than
// the old one, and the other is less.
func renamedWorld(interfaces [3]string) dptest.State {
	s := fullWorld(interfaces)
	s.Endpoints[endpointKey("a2")] = s.Endpoints[endpointKey("a")]
	s.Endpoints[endpointKey("a1")] = s.Endpoints[endpointKey("b")]
	delete(s.Endpoints, endpointKey("a"))
	delete(s.Endpoints, endpointKey("b"))
	return s
}

func guardPolicy() *dataplane.Policy {
	return &dataplane.Policy{
		Tier: "guard",
		Ingress: []dataplane.Rule{
			{ID: "g1", Action: policy.Log, Source: dataplane.Match{Nets: prefixes("192.0.2.0/24", "2001:db8::/32")}},
			{ID: "g2", Action: policy.Deny, Source: dataplane.Match{
				Nets: prefixes("192.0.2.0/24", "2001:db8::/32"), NotNets: prefixes("192.0.2.1/32"),
			}},
			{ID: "g3", Action: policy.Pass, Protocol: policy.ProtocolTCP},
		},
		Egress: []dataplane.Rule{{
			ID: "g4", Action: policy.Allow, IPVersion: 6, NotProtocol: policy.ProtocolUDP,
			Destination: dataplane.Match{NotSets: []dataplane.IPSetID{"s:nobody"}},
		}},
	}
}

func webPolicy() *dataplane.Policy {
	echo, code := 8, 0
	return &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{
			ID: "w1", Action: policy.Allow, Protocol: policy.ProtocolTCP,
			Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:clients"}},
			Destination: dataplane.Match{
				Ports:    []policy.Port{policy.PortNumber(443), policy.PortRange(9000, 9010)},
				PortSets: []dataplane.IPSetID{"p:http"},
			},
		},
		{ID: "w2", Action: policy.Allow, Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
			ICMP: &policy.ICMP{Type: &echo, Code: &code},
		}},
		{
			ID: "w3", Action: policy.Allow, Protocol: policy.ProtocolUDP,
			Source:      dataplane.Match{NotSets: []dataplane.IPSetID{"s:clients"}},
			Destination: dataplane.Match{NotPorts: []policy.Port{policy.PortNumber(53)}},
		},
	}}
}

func allowAll() *dataplane.Profile {
	return &dataplane.Profile{
		Ingress: []dataplane.Rule{{ID: "p1", Action: policy.Allow}},
		Egress:  []dataplane.Rule{{ID: "p2", Action: policy.Allow}},
	}
}

func endpointKey(name string) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: name}
}

// endpoint makes an endpoint with the tiers in both directions.
func endpoint(iface, v4, v6 string, tiers []dataplane.TierPolicies) *dataplane.Endpoint {
	return &dataplane.Endpoint{
		Interface: iface,
		Addresses: []netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)},
		MAC:       "02:00:00:00:99:01",
		Ingress:   tiers,
		Egress:    tiers,
		Profiles:  []string{"kns.shop", "ksa.shop.web"},
	}
}

func nets(list ...string) dptest.Set {
	set := dptest.Set{Type: dataplane.IPSetNets}
	for _, p := range prefixes(list...) {
		set.Members = append(set.Members, dataplane.Member{Prefix: p})
	}
	return set
}

func prefixes(list ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, s := range list {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

func portMember(addr string, proto policy.Protocol, port uint16) dataplane.Member {
	a := netip.MustParseAddr(addr)
	return dataplane.Member{Prefix: netip.PrefixFrom(a, a.BitLen()), Protocol: proto, Port: port}
}
