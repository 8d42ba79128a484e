// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// setNodes returns the name of the set of the addresses of nodes, by family.
func setNodes(f sets.Family) string { return familyName("nodes", f) }

// nodes renders the addresses of all nodes, if rules look them up.
type nodes struct {
	wanted bool
	table  *table
	byName map[string]*dataplane.Node
	dirty  bool
}

func newNodes(cfg *Config, t *table) *nodes {
	return &nodes{wanted: wantsNodes(cfg), table: t, byName: map[string]*dataplane.Node{}}
}

// wantsNodes reports whether rules look up the addresses of nodes.
func wantsNodes(cfg *Config) bool {
	return cfg.NAT.ExcludeNodes && !cfg.NAT.Disabled || len(cfg.Host.NodeEncapsulations()) > 0
}

// nodeSets returns the empty sets of addresses of nodes.
func nodeSets(cfg *Config) (out []*sets.ElementSet) {
	for _, f := range sets.Families() {
		s := sets.NewElementSet(ruleset.Set{Name: setNodes(f), Key: []ruleset.Type{sets.AddrType(f)}})
		s.Wanted = wantsNodes(cfg)
		out = append(out, s)
	}
	return out
}

// set replaces a node. n is nil if the node is removed.
func (ns *nodes) set(name string, n *dataplane.Node) {
	if n == nil {
		delete(ns.byName, name)
	} else {
		ns.byName[name] = n
	}
	ns.dirty = ns.wanted
}

// inherit takes the nodes of another.
func (ns *nodes) inherit(from *nodes) {
	ns.byName, ns.dirty = maps.Clone(from.byName), ns.wanted
}

// render replaces the elements of the sets.
func (ns *nodes) render() {
	elements := map[sets.Family][]ruleset.Element{}
	for _, n := range ns.byName {
		for _, p := range n.Addresses {
			if a := p.Addr().Unmap().WithZone(""); a.IsValid() {
				f := sets.FamilyOf(a)
				elements[f] = append(elements[f], sets.Element(nil, ruleset.Addr(a)))
			}
		}
	}
	for _, f := range sets.Families() {
		ns.table.elements[setNodes(f)].Replace(elements[f])
	}
	ns.dirty = false
}

// noNode matches packets whose address, in the field, no node has.
func noNode(f sets.Family, address ruleset.Field) ruleset.Match {
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

// notFromNodes returns rules that drop encapsulated packets to the host that no node sent. Each makes
// one lookup, so a packet that a change of the set overtakes meets one of the two states.
func (b *baseChains) notFromNodes() (rules []ruleset.Rule) {
	for _, e := range b.cfg.Host.NodeEncapsulations() {
		for _, f := range sets.Families() {
			matches := append(encapsulated(e), match.OfFamily(f),
				ruleset.Compare{Field: ruleset.IIFName, Not: true, Value: ruleset.Ifname(loopback)},
				noNode(f, match.Saddr(f)))
			rules = append(rules, b.statements.refusal(e.Name+" from no node", matches...))
		}
	}
	if len(rules) > 0 {
		rules = append(rules, b.statements.noFragments())
	}
	return rules
}
