// SPDX-License-Identifier: Apache-2.0

package render

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// setNodes returns the name of the set of nodes' addresses of a family.
func setNodes(f sets.Family) string { return familyName("nodes", f) }

// nodes renders the addresses of all nodes, if rules look them up.
type nodes struct {
	wanted bool
	table  *table
	byName map[string][]netip.Addr
	// addressRefs has the number of nodes that have each address.
	addressRefs map[netip.Addr]int
	// dirty is set if an element has changed since the last render.
	dirty bool
}

func newNodes(cfg *Config, t *table) *nodes {
	return &nodes{
		wanted: wantsNodes(cfg), table: t, byName: map[string][]netip.Addr{}, addressRefs: map[netip.Addr]int{},
	}
}

// wantsNodes reports whether rules look up the addresses of nodes.
func wantsNodes(cfg *Config) bool {
	return cfg.NAT.ExcludeNodes && !cfg.NAT.Disabled || len(cfg.Host.NodeEncapsulations()) > 0
}

// nodeSets returns the sets of nodes' addresses, without elements.
func nodeSets(cfg *Config) (out []*sets.ElementSet) {
	for _, f := range sets.Families() {
		s := sets.NewElementSet(ruleset.Set{Name: setNodes(f), Key: []ruleset.Type{sets.AddrType(f)}})
		s.Wanted = wantsNodes(cfg)
		out = append(out, s)
	}
	return out
}

// set replaces the addresses of a node. If the node is removed, nets is nil.
func (ns *nodes) set(name string, nets []netip.Prefix) {
	if !ns.wanted {
		return
	}
	var now []netip.Addr
	for _, p := range nets {
		if a := p.Addr().Unmap(); a.IsValid() {
			now = append(now, a)
		}
	}
	old := ns.byName[name]
	if slices.Equal(old, now) {
		return
	}
	for _, a := range now {
		if ns.addressRefs[a]++; ns.addressRefs[a] == 1 {
			ns.elements(a).Put(sets.Element(nil, ruleset.Addr(a)))
			ns.dirty = true
		}
	}
	for _, a := range old {
		if ns.addressRefs[a]--; ns.addressRefs[a] == 0 {
			delete(ns.addressRefs, a)
			ns.elements(a).Remove(string(ruleset.Addr(a)))
			ns.dirty = true
		}
	}
	if ns.byName[name] = now; len(now) == 0 {
		delete(ns.byName, name)
	}
}

func (ns *nodes) elements(a netip.Addr) *sets.ElementSet {
	return ns.table.elements[setNodes(sets.FamilyOf(a))]
}

// copyFrom copies the nodes of another renderer.
func (ns *nodes) copyFrom(from *nodes) {
	for name, addrs := range from.byName {
		var nets []netip.Prefix
		for _, a := range addrs {
			nets = append(nets, netip.PrefixFrom(a, a.BitLen()))
		}
		ns.set(name, nets)
	}
}

// notNodeAddress matches packets whose address in the given field is not an address of a node.
func notNodeAddress(f sets.Family, address ruleset.Field) ruleset.Match {
	return ruleset.Lookup{Fields: []ruleset.Field{address}, Not: true, Set: setNodes(f)}
}

// encapsulated matches the packets of an encapsulation.
func encapsulated(e policy.Encapsulation) []ruleset.Match {
	matches := []ruleset.Match{build.Equals(ruleset.L4Proto, ruleset.Byte(uint8(e.Protocol)))}
	if e.Port != 0 {
		matches = append(matches, build.Equals(ruleset.Dport, ruleset.Port(e.Port)))
	}
	return matches
}

// notFromNodes returns rules that drop encapsulated packets to the host unless their source is an
// address of a node. Each rule makes a single lookup, so a packet sees the set before or after a
// change.
//
// The rules also drop IPv6 fragments from other sources, because their ports cannot be matched: see
// noFragments. Packets over the loopback interface are exempt. But if multicast packets of the host
// are fragmented, the host does not get them back.
func (b *baseChains) notFromNodes() (rules []ruleset.Rule) {
	others := func(f sets.Family) []ruleset.Match {
		return []ruleset.Match{
			match.OfFamily(f), notNodeAddress(f, match.Saddr(f)),
			ruleset.Compare{Field: ruleset.IIFName, Not: true, Value: ruleset.Ifname(loopback)},
		}
	}
	for _, e := range b.cfg.Host.NodeEncapsulations() {
		for _, f := range sets.Families() {
			matches := append(encapsulated(e), others(f)...)
			rules = append(rules, b.statements.refusal(e.Name+" from outside the nodes", matches...))
		}
	}
	if len(rules) > 0 {
		rules = append(rules, b.statements.noFragments(others(sets.IPv6)[1:]...))
	}
	return rules
}
