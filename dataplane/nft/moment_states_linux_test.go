// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/policy"
)

// bothWays is the shop, with policy about the forbidden port. At this port, way1 may not send to
// the addresses of one set, and way2 may not receive from the addresses of another set.
func bothWays(to, from dptest.Set) dptest.State {
	s := shop()
	s.Sets["s:to"], s.Sets["s:from"] = to, from
	forbidden := dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(floodForbidden))}
	target := forbidden
	target.Sets = []dataplane.IPSetID{"s:to"}
	sends, receives := nfttest.PolicyKey("sends"), nfttest.PolicyKey("receives")
	s.Policies[sends] = &dataplane.Policy{Tier: "default", Egress: []dataplane.Rule{
		{ID: "to", Action: policy.Deny, Protocol: policy.ProtocolUDP, Destination: target}, nfttest.AllowAll("rest"),
	}}
	s.Policies[receives] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{ID: "from", Action: policy.Deny, Protocol: policy.ProtocolUDP, Source: set("s:from"), Destination: forbidden},
		nfttest.AllowAll("rest"),
	}}
	tier := func(key policy.Key) []dataplane.TierPolicies {
		return []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}}
	}
	s = edit(s, "way1", func(e *dataplane.Endpoint) { e.Egress = tier(sends) })
	return edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = tier(receives) })
}

// permitted is the shop, where policy of way1 and policy of way2 decide about packets to the
// forbidden port of way2. Either policy of way1 allows these packets, or policy of way2, but never
// both. The policy of way3 always matches the addresses of way1 and way2.
func permitted(family int, sends bool) dptest.State {
	s := shop()
	s.Sets["s:source"] = members(floodSource(family).String())
	s.Sets["s:target"] = members(floodTarget(family).String())
	s.Sets["s:none"] = others()
	forbidden := dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(floodForbidden))}
	rules := func(peer func(*dataplane.Rule) *dataplane.Match, sets ...dataplane.IPSetID) (out []dataplane.Rule) {
		for _, id := range sets {
			r := dataplane.Rule{
				ID: "set " + string(id), Action: policy.Allow, Protocol: policy.ProtocolUDP, Destination: forbidden,
			}
			peer(&r).Sets = []dataplane.IPSetID{id}
			out = append(out, r)
		}
		rest := dataplane.Rule{ID: "rest", Action: policy.Allow, Protocol: policy.ProtocolUDP}
		rest.Destination.Ports = nfttest.PortList(policy.PortNumber(floodAllowed))
		return append(out, rest)
	}
	source := func(r *dataplane.Rule) *dataplane.Match { return &r.Source }
	destination := func(r *dataplane.Rule) *dataplane.Match { return &r.Destination }
	to, from := dataplane.IPSetID("s:none"), dataplane.IPSetID("s:source")
	if sends {
		to, from = "s:target", "s:none"
	}
	put := func(endpoint, name string, p *dataplane.Policy) {
		s.Policies[nfttest.PolicyKey(name)] = p
		tiers := []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{nfttest.PolicyKey(name)},
		}}
		s = edit(s, endpoint, func(e *dataplane.Endpoint) {
			if p.Egress != nil {
				e.Egress = tiers
			}
			if p.Ingress != nil {
				e.Ingress = tiers
			}
		})
	}
	put("way1", "sends", &dataplane.Policy{Tier: "default", Egress: rules(destination, to)})
	put("way2", "receives", &dataplane.Policy{Tier: "default", Ingress: rules(source, from)})
	put("way3", "asks", &dataplane.Policy{Tier: "default", Ingress: rules(source, "s:source", "s:target", "s:none")})
	return s
}

// withoutPolicy removes one of the policies of bothWays from its endpoint.
func withoutPolicy(s dptest.State, name, endpoint string) dptest.State {
	s = edit(s, endpoint, func(e *dataplane.Endpoint) { e.Ingress, e.Egress = nil, nil })
	delete(s.Policies, nfttest.PolicyKey(name))
	switch name {
	case "sends":
		delete(s.Sets, "s:to")
	case "receives":
		delete(s.Sets, "s:from")
	}
	return s
}

func netMembers(list ...netip.Prefix) dptest.Set {
	set := dptest.Set{Type: dataplane.IPSetNets}
	for _, p := range list {
		set.Members = append(set.Members, dataplane.Member{Prefix: p.Masked()})
	}
	return set
}

// others returns members that match no flow.
func others() dptest.Set { return members("192.0.2.7", "2001:db8::7") }

// withMembers returns the set with more members, which are addresses or prefixes.
func withMembers(set dptest.Set, list ...string) dptest.Set {
	set.Members = slices.Clone(set.Members)
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a := netip.MustParseAddr(s)
			p = netip.PrefixFrom(a, a.BitLen())
		}
		set.Members = append(set.Members, dataplane.Member{Prefix: p})
	}
	return set
}

// deniedBy returns the shop with policy that denies traffic between an address and way1 or way2 at
// the forbidden port. The policy denies one of two sets, and first selects it.
func deniedBy(a netip.Addr, first bool) dptest.State {
	s := shop()
	with, without, denied := dataplane.IPSetID("s:one"), dataplane.IPSetID("s:two"), members(a.String())
	if !first {
		with, without = without, with
	}
	s.Sets[with], s.Sets[without] = denied, others()
	port := dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(floodForbidden))}
	to, from := port, dataplane.Match{Sets: []dataplane.IPSetID{with}}
	to.Sets = []dataplane.IPSetID{with}
	deny := func(source, destination dataplane.Match) []dataplane.Rule {
		return []dataplane.Rule{
			{ID: "denied", Action: policy.Deny, Protocol: policy.ProtocolUDP, Source: source, Destination: destination},
			nfttest.AllowAll("rest"),
		}
	}
	key := nfttest.PolicyKey("denies")
	s.Policies[key] = &dataplane.Policy{Tier: "default", Egress: deny(dataplane.Match{}, to), Ingress: deny(from, port)}
	tiers := []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}}
	// The policy of way3 matches both sets in every state, so their classes do not change.
	all := nfttest.PolicyKey("asks")
	s.Policies[all] = &dataplane.Policy{Tier: "default", Ingress: append(deny(
		dataplane.Match{Sets: []dataplane.IPSetID{"s:one"}}, port,
	),
		deny(dataplane.Match{Sets: []dataplane.IPSetID{"s:two"}}, port)...)}
	s = edit(s, "way1", func(e *dataplane.Endpoint) { e.Egress = tiers })
	s = edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = tiers })
	return edit(s, "way3", func(e *dataplane.Endpoint) {
		e.Ingress = []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{all}}}
	})
}

// allowedBy returns the state shop in which way2 has a policy of 32 rules. One of them allows an
// address.
func allowedBy(a netip.Addr, rule int) dptest.State {
	s := shop()
	p := &dataplane.Policy{Tier: "default"}
	for i := range 32 {
		id := dataplane.IPSetID("s:" + strconv.Itoa(i))
		s.Sets[id] = withMembers(others(), netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + i)}).String())
		if i == rule {
			s.Sets[id] = withMembers(s.Sets[id], a.String())
		}
		p.Ingress = append(p.Ingress, dataplane.Rule{
			ID: string(id), Action: policy.Allow, Protocol: policy.ProtocolUDP, Source: set(id),
			Destination: dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(floodAllowed))},
		})
	}
	return receivesBy(s, "receives", p)
}

// allowedByPolicy returns the state shop in which way2 has one policy, which allows an address.
func allowedByPolicy(a netip.Addr, name string) dptest.State {
	s := shop()
	id := dataplane.IPSetID("s:" + name)
	s.Sets[id] = withMembers(others(), a.String())
	return receivesBy(s, name, &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{{
		ID: "from", Action: policy.Allow, Protocol: policy.ProtocolUDP, Source: set(id),
		Destination: dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(floodAllowed))},
	}}})
}

// receivesBy returns the state with an ingress policy for way2.
func receivesBy(s dptest.State, name string, p *dataplane.Policy) dptest.State {
	key := nfttest.PolicyKey(name)
	s.Policies[key] = p
	return edit(s, "way2", func(e *dataplane.Endpoint) {
		e.Ingress = []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}}
	})
}
