// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
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
func setPools(f sets.Family) string       { return familyName("pools", f) }        // not translated as destinations
func setPoolsOut(f sets.Family) string    { return familyName("pools-out", f) }    // translated as sources
func mapFloating(f sets.Family) string    { return familyName("floating", f) }     // floating address -> workload's
func mapFloatingOut(f sets.Family) string { return familyName("floating-out", f) } // workload's address -> floating
func setHairpin(f sets.Family) string     { return familyName("floating-self", f) }

// nat renders address translation: source NAT of pools, and NAT of floating addresses, which are
// external addresses of workloads.
type nat struct {
	cfg   NATConfig
	table *table
	pools map[string]*dataplane.Pool
	// floating has the endpoints of each floating address. internal has, for each address of a
	// workload, the endpoints that map a floating address to it.
	floating map[netip.Addr]map[*subject]struct{}
	internal map[netip.Addr]map[*subject]struct{}
	// dirtyFloating has the addresses to render again: floating addresses, and addresses of
	// workloads. The field dirtyPools is set if the pools must be rendered again, and dirty if any
	// part must be rendered again.
	dirtyFloating     *dirtySet[netip.Addr]
	dirtyPools, dirty bool
}

func newNAT(cfg NATConfig, t *table) *nat {
	return &nat{
		cfg: cfg, table: t,
		pools:    map[string]*dataplane.Pool{},
		floating: map[netip.Addr]map[*subject]struct{}{}, internal: map[netip.Addr]map[*subject]struct{}{},
		dirtyFloating: newDirtySet[netip.Addr](),
	}
}

// natSets returns the sets and maps of address translation, without elements.
func natSets() (out []*sets.ElementSet) {
	for _, f := range sets.Families() {
		addr := []ruleset.Type{sets.AddrType(f)}
		for _, name := range []string{setPools(f), setPoolsOut(f)} {
			out = append(out, sets.NewElementSet(ruleset.Set{Name: name, Key: addr, Interval: true}))
		}
		for _, name := range []string{mapFloating(f), mapFloatingOut(f)} {
			out = append(out, sets.NewElementSet(ruleset.Set{Name: name, Key: addr, Data: addr}))
		}
		out = append(out, sets.NewElementSet(ruleset.Set{Name: setHairpin(f), Key: append(addr, addr...)}))
	}
	return out
}

// update processes an event. If the event does not concern address translation, it does nothing.
func (n *nat) update(e dataplane.Event) {
	if n.cfg.Disabled {
		return
	}
	switch e := e.(type) {
	case *dataplane.PoolUpdate:
		n.pools[e.Pool.Name] = e.Pool
	case *dataplane.PoolRemove:
		delete(n.pools, e.Name)
	default:
		return
	}
	n.dirtyPools, n.dirty = true, true
}

// copyFrom copies the pools of another nat.
func (n *nat) copyFrom(from *nat) {
	n.pools = maps.Clone(from.pools)
	n.dirtyPools, n.dirty = !n.cfg.Disabled, !n.cfg.Disabled
}

// setFloating replaces the floating addresses of an endpoint. If the endpoint is removed, e is nil.
func (n *nat) setFloating(s *subject, e *dataplane.Endpoint) {
	if n.cfg.Disabled {
		return
	}
	change := func(m map[netip.Addr]map[*subject]struct{}, a netip.Addr, add bool) {
		if add && m[a] == nil {
			m[a] = map[*subject]struct{}{}
		}
		if add {
			m[a][s] = struct{}{}
		} else if delete(m[a], s); len(m[a]) == 0 {
			delete(m, a)
		}
		n.dirtyFloating.mark(a)
	}
	set := func(e *dataplane.Endpoint, add bool) {
		if e == nil || checkEndpoint(e) != nil {
			return
		}
		for _, a := range e.NATs {
			change(n.floating, a.ExternalIP, add)
			change(n.internal, a.InternalIP, add)
		}
	}
	set(s.workload, false)
	set(e, true)
	n.dirty = n.dirty || n.dirtyFloating.len() > 0
}

// renderFloating updates the elements of one address. If several endpoints have the same floating
// address, the one with the smallest key gets it. If an address of a workload has several floating
// addresses, packets from it get the first one.
func (n *nat) renderFloating(a netip.Addr) {
	f := sets.FamilyOf(a)
	elements := n.table.elements
	in, out, self := elements[mapFloating(f)], elements[mapFloatingOut(f)], elements[setHairpin(f)]
	key := ruleset.Addr(a)
	if s := first(n.floating[a], nil); s != nil {
		i := slices.IndexFunc(s.workload.NATs, func(n policy.IPNAT) bool { return n.ExternalIP == a })
		internal := ruleset.Addr(s.workload.NATs[i].InternalIP)
		in.Put(ruleset.Element{Key: []ruleset.Value{key}, Data: []ruleset.Value{internal}})
	} else {
		in.Remove(string(key))
	}
	if s := first(n.internal[a], nil); s != nil {
		i := slices.IndexFunc(s.workload.NATs, func(n policy.IPNAT) bool { return n.InternalIP == a })
		external := ruleset.Addr(s.workload.NATs[i].ExternalIP)
		out.Put(ruleset.Element{Key: []ruleset.Value{key}, Data: []ruleset.Value{external}})
		self.Put(sets.Element(nil, key, key))
	} else {
		out.Remove(string(key))
		self.Remove(string(key) + string(key))
	}
}

// render updates the sets, maps and chains of address translation.
func (n *nat) render() {
	for a := range n.dirtyFloating.objects {
		n.renderFloating(a)
	}
	n.dirtyFloating.clear()
	if n.dirtyPools {
		n.renderPools()
	}
	n.renderChains()
	n.dirty = false
}

// renderPools replaces the sets of pools.
func (n *nat) renderPools() {
	for _, f := range sets.Families() {
		var all, out []netip.Prefix
		for _, p := range n.pools {
			if sets.FamilyOf(p.CIDR.Addr()) == f {
				all = append(all, p.CIDR)
				if p.NATOutgoing {
					out = append(out, p.CIDR)
				}
			}
		}
		all = append(all, sets.PrefixesOf(f, n.cfg.Exclude)...)
		n.table.elements[setPools(f)].Replace(netElements(all))
		n.table.elements[setPoolsOut(f)].Replace(netElements(out))
	}
	n.dirtyPools = false
}

// netElements returns elements that cover the prefixes and do not overlap.
func netElements(nets []netip.Prefix) (out []ruleset.Element) {
	for _, n := range sets.Uncovered(nets) {
		out = append(out, sets.Range{First: n.Addr(), Last: ruleset.LastAddr(n)}.Element())
	}
	return out
}

// renderChains writes the chains that are needed, and removes those that are not.
func (n *nat) renderChains() {
	var in, out, post []ruleset.Rule
	for _, f := range sets.Families() {
		has := func(name string) bool { return n.table.elements[name].Len() > 0 }
		known := n.hasPool(f)
		pools := has(setPoolsOut(f))
		floating := has(mapFloating(f))
		if floating {
			in = append(in, dnat(f))
			out = append(out, dnat(f))
			post = append(post, floatingSNAT(f, known)...)
		}
		if pools {
			post = append(post, n.poolSNAT(f)...)
		}
		for _, name := range []string{mapFloating(f), mapFloatingOut(f), setHairpin(f)} {
			n.table.elements[name].Wanted = floating
		}
		n.table.elements[setPoolsOut(f)].Wanted = pools
		n.table.elements[setPools(f)].Wanted = pools || floating && known
	}
	keep := func(name string, point ruleset.HookPoint, priority int, rules []ruleset.Rule) {
		c := base(name, point, priority, rules...)
		c.Hook.Type = ruleset.HookNAT
		n.table.chains.Keep(c, len(rules) > 0)
	}
	keep(chainNATPrerouting, ruleset.Prerouting, priorityDstNAT+1, in)
	keep(chainNATOutput, ruleset.Output, priorityDstNAT+1, out)
	keep(chainNATPostrouting, ruleset.Postrouting, prioritySrcNAT+1, post)
}

// hasPool reports whether there is a pool of the family. NATConfig.Exclude does not count, because
// its addresses may not belong to workloads.
func (n *nat) hasPool(f sets.Family) bool {
	for _, p := range n.pools {
		if sets.FamilyOf(p.CIDR.Addr()) == f {
			return true
		}
	}
	return false
}

// dnat returns the rule that translates a floating address as destination to the address of its
// workload.
func dnat(f sets.Family) ruleset.Rule {
	t := translation(f)
	nat := ruleset.NAT{Kind: ruleset.DNAT, Family: natFamily(f), Fields: t.Fields, Map: t.Map}
	return ruleset.Rule{Matches: t.Matches, Statements: []ruleset.Statement{nat}}
}

// translation returns the map of floating addresses of a family, and the fields with which rules
// look it up.
func translation(f sets.Family) ruleset.Translation {
	return ruleset.Translation{
		Map: mapFloating(f), Matches: []ruleset.Match{match.OfFamily(f)}, Fields: []ruleset.Field{match.Daddr(f)},
	}
}

// Translations returns the maps of floating addresses. (A floating address is an external address
// that destination NAT maps to an address of an endpoint.) The writer of the table must drop new
// connections to a floating address while it changes the element of this address. Otherwise the
// node could route a packet whose destination was not translated, and no policy would decide about
// the packet.
func Translations() (all []ruleset.Translation) {
	for _, f := range sets.Families() {
		all = append(all, translation(f))
	}
	return all
}

// floatingSNAT returns the rules that translate the source of a workload's packets to its floating
// address. The first rule is for packets that a workload sends to its own floating address: without
// it, the replies would not return to this node. The second rule is for packets to destinations
// that are not workloads.
func floatingSNAT(f sets.Family, pools bool) []ruleset.Rule {
	snat := []ruleset.Statement{ruleset.NAT{
		Kind: ruleset.SNAT, Family: natFamily(f), Fields: []ruleset.Field{match.Saddr(f)}, Map: mapFloatingOut(f),
	}}
	hairpin := build.InSet(setHairpin(f), match.Saddr(f), match.Daddr(f))
	out := []ruleset.Rule{{Matches: []ruleset.Match{match.OfFamily(f), hairpin}, Statements: snat}}
	if pools { // without pools, it is not known which addresses are workloads'
		others := ruleset.Lookup{Fields: []ruleset.Field{match.Daddr(f)}, Not: true, Set: setPools(f)}
		out = append(out, ruleset.Rule{Matches: []ruleset.Match{match.OfFamily(f), others}, Statements: snat})
	}
	return out
}

// poolSNAT returns the rules that translate the source of packets from pools with NATOutgoing to
// destinations outside all pools.
func (n *nat) poolSNAT(f sets.Family) []ruleset.Rule {
	matches := []ruleset.Match{
		match.OfFamily(f), build.InSet(setPoolsOut(f), match.Saddr(f)),
		ruleset.Lookup{Fields: []ruleset.Field{match.Daddr(f)}, Not: true, Set: setPools(f)},
	}
	if n.cfg.ExcludeNodes {
		matches = append(matches, notNodeAddress(f, match.Daddr(f)))
	}
	source := n.cfg.Source4
	if f == sets.IPv6 {
		source = n.cfg.Source6
	}
	translate := func(first, last uint16) ruleset.Statement {
		if source.IsValid() {
			return ruleset.NAT{
				Kind: ruleset.SNAT, Family: natFamily(f), Addr: ruleset.Addr(source), Port: first, PortLast: last,
			}
		}
		return ruleset.NAT{Kind: ruleset.Masquerade, Port: first, PortLast: last}
	}
	if n.cfg.FirstPort == 0 {
		return []ruleset.Rule{{Matches: matches, Statements: []ruleset.Statement{translate(0, 0)}}}
	}
	ported := build.OneOf(ruleset.L4Proto, ruleset.Byte(uint8(policy.ProtocolTCP)),
		ruleset.Byte(uint8(policy.ProtocolUDP)), ruleset.Byte(uint8(policy.ProtocolSCTP)))
	return []ruleset.Rule{
		{
			Matches:    append(matches[:len(matches):len(matches)], ported),
			Statements: []ruleset.Statement{translate(n.cfg.FirstPort, n.cfg.LastPort)},
		},
		{Matches: matches, Statements: []ruleset.Statement{translate(0, 0)}},
	}
}

func natFamily(f sets.Family) ruleset.Family {
	if f == sets.IPv6 {
		return ruleset.FamilyIPv6
	}
	return ruleset.FamilyIPv4
}
