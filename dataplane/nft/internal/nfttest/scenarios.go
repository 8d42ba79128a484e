// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// CountedState returns a state with two endpoints, for tests of render.ClassStats, which counts
// classes and groups. (A class is all addresses that are in the same sets. A group is all endpoints
// with the same policies in one direction.) Both endpoints have the same policy. Its rules use two
// sets: s:a has an IPv4 address and an IPv6 address, and s:b has a prefix.
func CountedState() dptest.State {
	s := dptest.NewState()
	s.InSync = true
	s.Sets["s:a"] = dptest.Set{Members: []dataplane.Member{
		{Prefix: netip.MustParsePrefix("10.0.0.1/32")}, {Prefix: netip.MustParsePrefix("fd00::1/128")},
	}}
	s.Sets["s:b"] = dptest.Set{Members: []dataplane.Member{{Prefix: netip.MustParsePrefix("10.1.0.0/16")}}}
	key := policy.Key{Kind: policy.KindPolicy, Name: "p"}
	s.Policies[key] = &dataplane.Policy{Ingress: []dataplane.Rule{
		{ID: "1", Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:a"}}},
		{ID: "2", Action: policy.Allow, Protocol: 6, Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:b"}}},
	}}
	for i := range 2 {
		name := fmt.Sprint("way", i)
		s.Endpoints[EndpointKey(name)] = &dataplane.Endpoint{
			Interface: name, Addresses: Addresses(fmt.Sprint("10.9.0.", i)),
			Ingress: []dataplane.TierPolicies{{Tier: "t", DefaultAction: policy.Deny, Policies: []policy.Key{key}}},
		}
	}
	return s
}

// ClassCounts returns the expected counts of CountedState:
//
//   - There are three classes: the IPv4 address of the set s:a, the IPv6 address of s:a, and the
//     prefix of the set s:b.
//   - There are two groups: one for ingress, and one for egress.
//   - There are four outcomes. The group for ingress has three: one for the addresses of s:a, one
//     for those of s:b, and one for all other addresses. The group for egress has one.
func ClassCounts() render.ClassStats {
	return render.ClassStats{
		Addresses: 2, Ranges: 1, Classes: 3, Groups: 2, Elements: 3, Outcomes: 4, Cost: 7, Largest: CountedGroup(),
		MaxPerGroup: 65_536, MaxTotal: 400_000,
	}
}

// CountedGroup returns the ingress group of CountedState. It consists of both endpoints, with their
// policy.
func CountedGroup() render.ClassGroup {
	return render.ClassGroup{
		Direction: "ingress", Tiers: "tier t", Policy: policy.Key{Kind: policy.KindPolicy, Name: "p"},
		Endpoints: 2, Endpoint: EndpointKey("way0"), Cost: 7,
	}
}

// CountedRules returns rules for tests of rule counters. The renderer merges most of them into
// verdict maps from a port or a protocol to the chain of the rule that decides. Some rules cannot
// be merged. Some overlap with earlier ones, which decide first. For example, the rules "web" and
// "never" both have port 443, and the rule "tcp" matches all ports of TCP.
func CountedRules() []dataplane.Rule {
	rule := func(id string, action policy.Action, proto policy.Protocol, ports ...policy.Port) dataplane.Rule {
		r := dataplane.Rule{ID: id, Action: action, Protocol: proto}
		r.Destination.Ports = ports
		return r
	}
	source := rule("source-port", policy.Allow, policy.ProtocolTCP, policy.PortNumber(21))
	source.Source.Ports = PortList(policy.PortNumber(20))
	return []dataplane.Rule{
		rule("web", policy.Allow, policy.ProtocolTCP, policy.PortNumber(80), policy.PortNumber(443)),
		rule("never", policy.Deny, policy.ProtocolTCP, policy.PortNumber(443), policy.PortNumber(23)),
		rule("metrics", policy.Allow, policy.ProtocolTCP, policy.PortRange(9100, 9200)),
		rule("dns", policy.Allow, policy.ProtocolUDP, policy.PortNumber(53)),
		rule("dns", policy.Allow, policy.ProtocolSCTP, policy.PortNumber(53)),
		rule("gre", policy.Allow, 47), rule("esp", policy.Deny, 50),
		source,
		rule("high", policy.Deny, policy.ProtocolTCP, policy.PortRange(1024, 65535)),
		rule("tcp", policy.Allow, policy.ProtocolTCP),
		{ID: "any", Action: policy.Deny},
	}
}

// PortList returns its arguments.
func PortList(list ...policy.Port) []policy.Port { return list }

// NetSet returns a set whose members are prefixes, sorted.
func NetSet(list ...string) dptest.Set {
	var s dptest.Set
	for _, n := range Nets(list...) {
		s.Members = append(s.Members, dataplane.Member{Prefix: n})
	}
	slices.SortFunc(s.Members, dataplane.Member.Compare)
	return s
}

// PortSet returns a set whose members are addresses with one port, sorted.
func PortSet(proto policy.Protocol, port uint16, list ...string) dptest.Set {
	s := dptest.Set{Type: dataplane.IPSetPorts}
	for _, a := range Addresses(list...) {
		s.Members = append(s.Members, dataplane.Member{
			Prefix: netip.PrefixFrom(a, a.BitLen()), Protocol: proto, Port: port,
		})
	}
	slices.SortFunc(s.Members, dataplane.Member.Compare)
	return s
}

// AllowAll returns a rule that allows everything.
func AllowAll(id string) dataplane.Rule { return dataplane.Rule{ID: id, Action: policy.Allow} }

// RulesState returns a state with one endpoint, whose policy has these rules.
func RulesState(rules ...dataplane.Rule) dptest.State {
	s := InSync()
	s.Sets["s:a"] = NetSet("10.0.1.1/32", "fd00:1::1/128")
	s.Sets["s:b"] = NetSet("10.0.0.0/8", "fd00::/8")
	s.Sets["p:http"] = PortSet(policy.ProtocolTCP, 8080, "10.0.0.1", "fd00::1")
	s.Sets["p:dns"] = PortSet(policy.ProtocolUDP, 53, "10.0.0.1")
	s.Policies[PolicyKey("rules")] = &dataplane.Policy{Tier: "default", Ingress: rules}
	s.Endpoints[EndpointKey("web1")] = &dataplane.Endpoint{
		Interface: "way1", Addresses: Addresses("10.0.0.1", "fd00::1"),
		Ingress: []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{PolicyKey("rules")},
		}},
	}
	return s
}
