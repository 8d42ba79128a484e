// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// prober chooses packets that the policy of a state distinguishes. Each packet is possible. Its
// source is an address of its From, or of no local endpoint. Its destination is an address of its
// To, or of no local endpoint.
type prober struct {
	rng    *rand.Rand
	state  dptest.State
	owners map[netip.Addr]policy.Key
	locals []policy.Key
	all    values
	// rules has the values of each rule that applies to an endpoint.
	rules map[side][]values
}

// side is a direction of an endpoint.
type side struct {
	endpoint policy.Key
	ingress  bool
}

func newProber(rng *rand.Rand, s dptest.State) *prober {
	p := &prober{rng: rng, state: s, owners: owners(s), rules: map[side][]values{}}
	for _, key := range slices.SortedFunc(maps.Keys(s.Endpoints), policy.Key.Compare) {
		if len(s.Endpoints[key].Addresses) > 0 {
			p.locals = append(p.locals, key)
		}
	}
	var rules []dataplane.Rule
	for _, key := range slices.SortedFunc(maps.Keys(s.Policies), policy.Key.Compare) {
		rules = append(append(rules, s.Policies[key].Ingress...), s.Policies[key].Egress...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Profiles)) {
		rules = append(append(rules, s.Profiles[name].Ingress...), s.Profiles[name].Egress...)
	}
	p.all = valuesOf(s, rules)
	p.all.addStandard()
	for _, key := range p.locals {
		p.all.peers = append(p.all.peers, s.Endpoints[key].Addresses...)
		for _, ingress := range []bool{false, true} {
			for _, r := range p.rulesOf(side{key, ingress}) {
				p.rules[side{key, ingress}] = append(p.rules[side{key, ingress}], valuesOf(s, []dataplane.Rule{r}))
			}
		}
	}
	return p
}

// decider identifies what decided about a packet in both directions.
type decider struct {
	from, to        policy.Key
	egress, ingress dptest.Decision
}

// probes returns at most the given number of packets. It takes a few packets for each decider that
// it finds: a rule, the end of a tier, or a profile. For each of these packets, it adds some that
// differ from it in one field and have the opposite verdict.
func (p *prober) probes(most int) []dptest.Packet {
	const each, neighbours, tries = 3, 12, 10
	if len(p.locals) == 0 {
		return nil
	}
	var out []dptest.Packet
	seen, taken := map[decider]int{}, map[dptest.Packet]bool{}
	take := func(pkt dptest.Packet) {
		if !taken[pkt] {
			taken[pkt] = true
			out = append(out, pkt)
		}
	}
	for range most * tries {
		pkt := p.packet()
		v := p.state.Judge(pkt)
		d := decider{pkt.From, pkt.To, v.Egress, v.Ingress}
		if seen[d]++; seen[d] > each {
			continue
		}
		take(pkt)
		for range neighbours {
			if near := p.neighbour(pkt); p.state.Judge(near).Allowed() != v.Allowed() {
				take(near)
			}
		}
	}
	// The choice is random, because the first packets would be those of frequent deciders.
	p.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(len(out), most)]
}

// packet returns a random packet to or from a local endpoint. It usually has the values of a rule
// that applies to the endpoint.
func (p *prober) packet() dptest.Packet {
	key := pick(p.rng, p.locals)
	own := pick(p.rng, p.state.Endpoints[key].Addresses)
	ingress := p.rng.IntN(2) == 0
	vals := values{}
	if rules := p.rules[side{key, ingress}]; len(rules) > 0 && p.rng.IntN(4) > 0 {
		vals = pick(p.rng, rules)
	}
	var pkt dptest.Packet
	if peer := p.peer(vals, own); ingress {
		pkt.Src, pkt.Dst = peer, own
	} else {
		pkt.Src, pkt.Dst = own, peer
	}
	pkt.Protocol = choose(p.rng, vals.protocols, p.all.protocols)
	if p.rng.IntN(3) == 0 {
		pkt.Header = choose(p.rng, vals.headers, p.all.headers)
	}
	return p.finish(pkt, vals)
}

// finish sets the fields that depend on the addresses and the protocol.
func (p *prober) finish(pkt dptest.Packet, vals values) dptest.Packet {
	pkt.From, pkt.To = p.owners[pkt.Src], p.owners[pkt.Dst]
	switch pkt.Protocol {
	case policy.ProtocolICMP, policy.ProtocolICMPv6:
		if pkt.Protocol = policy.ProtocolICMP; pkt.Src.Is6() {
			pkt.Protocol = policy.ProtocolICMPv6
		}
	}
	pkt.SrcPort, pkt.DstPort, pkt.ICMPType, pkt.ICMPCode = 0, 0, 0, 0
	switch {
	case pkt.Protocol.HasPorts():
		pkt.SrcPort = choose(p.rng, vals.srcPorts, p.all.srcPorts)
		pkt.DstPort = choose(p.rng, vals.dstPorts, p.all.dstPorts)
	case pkt.Protocol == policy.ProtocolICMP, pkt.Protocol == policy.ProtocolICMPv6:
		m := choose(p.rng, vals.icmps, p.all.icmps)
		pkt.ICMPType, pkt.ICMPCode = m[0], m[1]
	}
	return pkt
}

// peer returns an address of own's family that does not belong to the endpoint with the address
// own.
func (p *prober) peer(vals values, own netip.Addr) netip.Addr {
	for range 20 {
		a := choose(p.rng, vals.peers, p.all.peers)
		if a.Is4() == own.Is4() && p.owners[a] != p.owners[own] {
			return a
		}
	}
	if own.Is4() {
		return outside4()
	}
	return outside6()
}

// neighbour returns a packet that differs from pkt in one field, or in as few fields as possible.
func (p *prober) neighbour(pkt dptest.Packet) dptest.Packet {
	switch p.rng.IntN(4) {
	case 0: // another peer
		if pkt.To != (policy.Key{}) && (pkt.From == policy.Key{} || p.rng.IntN(2) == 0) {
			pkt.Src = p.peer(values{}, pkt.Dst)
		} else {
			pkt.Dst = p.peer(values{}, pkt.Src)
		}
		pkt.From, pkt.To = p.owners[pkt.Src], p.owners[pkt.Dst]
	case 1:
		pkt.Header = pick(p.rng, p.all.headers)
	case 2: // other protocols with ports have the same ports
		src, dst := pkt.SrcPort, pkt.DstPort
		had := pkt.Protocol.HasPorts()
		pkt.Protocol = pick(p.rng, p.all.protocols)
		pkt = p.finish(pkt, values{})
		if had && pkt.Protocol.HasPorts() {
			pkt.SrcPort, pkt.DstPort = src, dst
		}
	default:
		p.neighbourPort(&pkt)
	}
	return pkt
}

// neighbourPort changes one port, or the ICMP type or code.
func (p *prober) neighbourPort(pkt *dptest.Packet) {
	first := p.rng.IntN(2) == 0
	m := pick(p.rng, p.all.icmps)
	switch hasPorts := pkt.Protocol.HasPorts(); {
	case hasPorts && first:
		pkt.SrcPort = pick(p.rng, p.all.srcPorts)
	case hasPorts:
		pkt.DstPort = pick(p.rng, p.all.dstPorts)
	case pkt.Protocol != policy.ProtocolICMP && pkt.Protocol != policy.ProtocolICMPv6:
	case first:
		pkt.ICMPType = m[0]
	default:
		pkt.ICMPCode = m[1]
	}
}

// rulesOf returns the rules of a side, including those of staged policies.
func (p *prober) rulesOf(at side) (out []dataplane.Rule) {
	e := p.state.Endpoints[at.endpoint]
	tiers := e.Egress
	if at.ingress {
		tiers = e.Ingress
	}
	add := func(ingress, egress []dataplane.Rule) {
		if at.ingress {
			out = append(out, ingress...)
		} else {
			out = append(out, egress...)
		}
	}
	for _, t := range tiers {
		for _, k := range t.Policies {
			add(p.state.Policies[k].Ingress, p.state.Policies[k].Egress)
		}
	}
	for _, name := range e.Profiles {
		add(p.state.Profiles[name].Ingress, p.state.Profiles[name].Egress)
	}
	return out
}

// pick returns a random item.
func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// choose returns a random item, usually of the first list.
func choose[T any](rng *rand.Rand, first, other []T) T {
	if len(first) > 0 && rng.IntN(5) > 0 {
		return pick(rng, first)
	}
	return pick(rng, other)
}
