// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// The chains of address translation.
const (
	chainNATPrerouting  = "nat-prerouting"
	chainNATOutput      = "nat-output"
	chainNATPostrouting = "nat-postrouting"
)

// The sets and maps of address translation, by family.
func setPools(f family) string       { return natName("pools", f) }        // not translated as destinations
func setPoolsOut(f family) string    { return natName("pools-out", f) }    // translated as sources
func setNodes(f family) string       { return natName("nodes", f) }        // addresses of nodes
func mapFloating(f family) string    { return natName("floating", f) }     // floating address -> workload's
func mapFloatingOut(f family) string { return natName("floating-out", f) } // workload's address -> floating
func setHairpin(f family) string     { return natName("floating-self", f) }

func natName(name string, f family) string { return name + string(rune('0'+int(f))) }

// nat is what address translation goes by.
type nat struct {
	pools map[string]*dataplane.Pool
	nodes map[string]*dataplane.Node
	// floating has the endpoints that claim a floating address, and internal those that have a floating address for one of theirs.
	floating map[netip.Addr]map[*subject]struct{}
	internal map[netip.Addr]map[*subject]struct{}
}

// natSets returns the sets and maps of address translation, empty.
func natSets() (out []*elementSet) {
	for _, f := range families() {
		addr := []ruleset.Type{addrType(f)}
		for _, name := range []string{setPools(f), setPoolsOut(f)} {
			out = append(out, newElementSet(ruleset.Set{Name: name, Key: addr, Interval: true}))
		}
		for _, name := range []string{mapFloating(f), mapFloatingOut(f)} {
			out = append(out, newElementSet(ruleset.Set{Name: name, Key: addr, Data: addr}))
		}
		out = append(out,
			newElementSet(ruleset.Set{Name: setNodes(f), Key: addr}),
			newElementSet(ruleset.Set{Name: setHairpin(f), Key: append(addr, addr...)}))
	}
	return out
}

// setFloating notes the floating addresses of an endpoint, or that it has them no longer.
func (r *Renderer) setFloating(s *subject, e *dataplane.Endpoint) {
	change := func(m map[netip.Addr]map[*subject]struct{}, a netip.Addr, add bool) {
		if add && m[a] == nil {
			m[a] = map[*subject]struct{}{}
		}
		if add {
			m[a][s] = struct{}{}
		} else if delete(m[a], s); len(m[a]) == 0 {
			delete(m, a)
		}
		r.dirtyFloating[a] = struct{}{}
	}
	note := func(e *dataplane.Endpoint, add bool) {
		if e == nil || checkEndpoint(e) != nil {
			return
		}
		for _, n := range e.NATs {
			change(r.nat.floating, n.ExternalIP, add)
			change(r.nat.internal, n.InternalIP, add)
		}
	}
	note(s.workload, false)
	note(e, true)
	r.dirtyNAT = r.dirtyNAT || len(r.dirtyFloating) > 0
}

// first returns the subject with the smallest key.
func first(subjects map[*subject]struct{}) *subject {
	var s *subject
	for o := range subjects {
		if s == nil || o.key.Compare(s.key) < 0 {
			s = o
		}
	}
	return s
}

// settleFloating puts the elements for one address. Of several endpoints that claim a floating address, the one with the smallest
// key has it; of several floating addresses that a workload's address has, it sends from the first.
func (r *Renderer) settleFloating(a netip.Addr) {
	f := familyOf(a)
	in, out, self := r.elements[mapFloating(f)], r.elements[mapFloatingOut(f)], r.elements[setHairpin(f)]
	key := ruleset.Addr(a)
	if s := first(r.nat.floating[a]); s != nil {
		i := slices.IndexFunc(s.workload.NATs, func(n policy.IPNAT) bool { return n.ExternalIP == a })
		in.put(ruleset.Element{Key: []ruleset.Value{key}, Data: []ruleset.Value{ruleset.Addr(s.workload.NATs[i].InternalIP)}})
	} else {
		in.remove(string(key))
	}
	if s := first(r.nat.internal[a]); s != nil {
		i := slices.IndexFunc(s.workload.NATs, func(n policy.IPNAT) bool { return n.InternalIP == a })
		out.put(ruleset.Element{Key: []ruleset.Value{key}, Data: []ruleset.Value{ruleset.Addr(s.workload.NATs[i].ExternalIP)}})
		self.put(element(nil, key, key))
	} else {
		out.remove(string(key))
		self.remove(string(key) + string(key))
	}
}

// settleNAT brings everything of address translation to where it should be.
func (r *Renderer) settleNAT() {
	for a := range r.dirtyFloating {
		r.settleFloating(a)
	}
	r.dirtyFloating = emptied(r.dirtyFloating)
	if r.dirtyPools {
		r.settlePools()
	}
	r.settleNATChains()
}

func (r *Renderer) settlePools() {
	for _, f := range families() {
		var all, out []netip.Prefix
		for _, p := range r.nat.pools {
			if familyOf(p.CIDR.Addr()) == f {
				all = append(all, p.CIDR)
				if p.NATOutgoing {
					out = append(out, p.CIDR)
				}
			}
		}
		all = append(all, prefixesOf(f, r.cfg.NAT.Exclude)...)
		r.elements[setPools(f)].replace(netElements(all))
		r.elements[setPoolsOut(f)].replace(netElements(out))
		var nodes []ruleset.Element
		for _, n := range r.nat.nodes {
			for _, p := range n.Addresses {
				if a := p.Addr().Unmap(); a.IsValid() && familyOf(a) == f && r.cfg.NAT.ExcludeNodes {
					nodes = append(nodes, element(nil, ruleset.Addr(a.WithZone(""))))
				}
			}
		}
		r.elements[setNodes(f)].replace(nodes)
	}
	r.dirtyPools = false
}

// netElements returns disjoint elements that hold what the prefixes hold.
func netElements(nets []netip.Prefix) (out []ruleset.Element) {
	for _, n := range uncovered(nets) {
		out = append(out, addrRange{n.Addr(), lastAddr(n)}.element())
	}
	return out
}

// settleNATChains puts the chains there that are needed, and takes the others away.
func (r *Renderer) settleNATChains() {
	var in, out, post []ruleset.Rule
	for _, f := range families() {
		has := func(name string) bool { return len(r.elements[name].elements) > 0 }
		known := r.hasPool(f)
		pools := has(setPoolsOut(f))
		floating := has(mapFloating(f))
		if floating {
			in = append(in, r.dnat(f))
			out = append(out, r.dnat(f))
			post = append(post, r.floatingSNAT(f, known)...)
		}
		if pools {
			post = append(post, r.poolSNAT(f)...)
		}
		r.elements[mapFloating(f)].wanted, r.elements[mapFloatingOut(f)].wanted, r.elements[setHairpin(f)].wanted = floating, floating, floating
		r.elements[setPoolsOut(f)].wanted, r.elements[setPools(f)].wanted = pools, pools || floating && known
		r.elements[setNodes(f)].wanted = pools && r.cfg.NAT.ExcludeNodes
	}
	keep := func(name string, point ruleset.HookPoint, priority int, rules []ruleset.Rule) {
		c := base(name, point, priority, rules...)
		c.Hook.Type = ruleset.HookNAT
		r.keepChain(name, c, len(rules) > 0)
	}
	keep(chainNATPrerouting, ruleset.Prerouting, priorityDstNAT+1, in)
	keep(chainNATOutput, ruleset.Output, priorityDstNAT+1, out)
	keep(chainNATPostrouting, ruleset.Postrouting, prioritySrcNAT+1, post)
}

// hasPool reports whether there is a pool of the family: what is excluded from translation besides says nothing about workloads.
func (r *Renderer) hasPool(f family) bool {
	for _, p := range r.nat.pools {
		if familyOf(p.CIDR.Addr()) == f {
			return true
		}
	}
	return false
}

// dnat sends what is for a floating address to the workload.
func (r *Renderer) dnat(f family) ruleset.Rule {
	return ruleset.Rule{
		Matches:    []ruleset.Match{ofFamily(f)},
		Statements: []ruleset.Statement{ruleset.NAT{Kind: ruleset.DNAT, Family: natFamily(f), Fields: []ruleset.Field{daddr(f)}, Map: mapFloating(f)}},
	}
}

// floatingSNAT gives a workload its floating address as a source where it sends to others than workloads, and where what it
// sent to its own floating address comes back to it, whose answer would not find the way otherwise.
func (r *Renderer) floatingSNAT(f family, pools bool) []ruleset.Rule {
	snat := []ruleset.Statement{ruleset.NAT{Kind: ruleset.SNAT, Family: natFamily(f), Fields: []ruleset.Field{saddr(f)}, Map: mapFloatingOut(f)}}
	out := []ruleset.Rule{{Matches: []ruleset.Match{ofFamily(f), inSet(setHairpin(f), saddr(f), daddr(f))}, Statements: snat}}
	if pools { // otherwise there is no telling who is a workload
		others := ruleset.Lookup{Fields: []ruleset.Field{daddr(f)}, Not: true, Set: setPools(f)}
		out = append(out, ruleset.Rule{Matches: []ruleset.Match{ofFamily(f), others}, Statements: snat})
	}
	return out
}

// poolSNAT translates what pools with NATOutgoing send to others than pools.
func (r *Renderer) poolSNAT(f family) []ruleset.Rule {
	matches := []ruleset.Match{
		ofFamily(f), inSet(setPoolsOut(f), saddr(f)),
		ruleset.Lookup{Fields: []ruleset.Field{daddr(f)}, Not: true, Set: setPools(f)},
	}
	if r.cfg.NAT.ExcludeNodes {
		matches = append(matches, ruleset.Lookup{Fields: []ruleset.Field{daddr(f)}, Not: true, Set: setNodes(f)})
	}
	source := r.cfg.NAT.Source4
	if f == ipv6 {
		source = r.cfg.NAT.Source6
	}
	translate := func(first, last uint16) ruleset.Statement {
		if source.IsValid() {
			return ruleset.NAT{Kind: ruleset.SNAT, Family: natFamily(f), Addr: ruleset.Addr(source), Port: first, PortLast: last}
		}
		return ruleset.NAT{Kind: ruleset.Masquerade, Port: first, PortLast: last}
	}
	if r.cfg.NAT.FirstPort == 0 {
		return []ruleset.Rule{{Matches: matches, Statements: []ruleset.Statement{translate(0, 0)}}}
	}
	ported := oneOf(ruleset.L4Proto, ruleset.Byte(uint8(policy.ProtocolTCP)), ruleset.Byte(uint8(policy.ProtocolUDP)), ruleset.Byte(uint8(policy.ProtocolSCTP)))
	return []ruleset.Rule{
		{
			Matches:    append(matches[:len(matches):len(matches)], ported),
			Statements: []ruleset.Statement{translate(r.cfg.NAT.FirstPort, r.cfg.NAT.LastPort)},
		},
		{Matches: matches, Statements: []ruleset.Statement{translate(0, 0)}},
	}
}

func natFamily(f family) ruleset.Family {
	if f == ipv6 {
		return ruleset.FamilyIPv6
	}
	return ruleset.FamilyIPv4
}
