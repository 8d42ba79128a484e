// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// ruleSide is the source or the destination side of a rule.
type ruleSide struct {
	matcher
	match *dataplane.Match
	dst   bool
}

// addrField returns the field of the side's address.
func (s ruleSide) addrField(f family) ruleset.Field {
	switch {
	case s.original && s.dst:
		return originalDaddr(f)
	case s.dst:
		return daddr(f)
	default:
		return saddr(f)
	}
}

func saddr(f family) ruleset.Field {
	if f == ipv4 {
		return ruleset.IPSaddr
	}
	return ruleset.IP6Saddr
}

func daddr(f family) ruleset.Field {
	if f == ipv4 {
		return ruleset.IPDaddr
	}
	return ruleset.IP6Daddr
}

// originalDaddr is the destination before destination NAT.
func originalDaddr(f family) ruleset.Field {
	if f == ipv4 {
		return ruleset.CtOriginalDaddr
	}
	return ruleset.CtOriginalDaddr6
}

// portField returns the field of the side's port.
func (s ruleSide) portField() ruleset.Field {
	switch {
	case s.original && s.dst:
		return ruleset.CtOriginalDport
	case s.dst:
		return ruleset.Dport
	default:
		return ruleset.Sport
	}
}

// addrMatches returns the matches on the side's address, and for each IP set that it must be in the choice of lookups of
// which one must hold. A field that is empty for the family because all its prefixes are of the other one never
// matches (S68); neither does one that excludes everything (S69), nor one with a set that is empty (S92).
func (s ruleSide) addrMatches(f family) (all []ruleset.Match, choices [][]ruleset.Match, err error) {
	field := s.addrField(f)
	if len(s.match.Nets) > 0 {
		nets := mergeNets(prefixesOf(f, s.match.Nets))
		if len(nets) == 0 {
			return nil, nil, errNoMatch
		}
		if !nets[0].everything() { // S70: the match on the family is there anyway
			all = append(all, netMatch(field, nets, false))
		}
	}
	if len(s.match.NotNets) > 0 {
		if nets := mergeNets(prefixesOf(f, s.match.NotNets)); len(nets) > 0 {
			if nets[0].everything() {
				return nil, nil, errNoMatch
			}
			all = append(all, netMatch(field, nets, true))
		}
	}
	for _, id := range s.match.NotSets {
		all = append(all, s.lookups(field, f, id, true)...)
	}
	for _, id := range s.match.Sets {
		choice := s.lookups(field, f, id, false)
		if len(choice) == 0 {
			return nil, nil, errNoMatch
		}
		choices = append(choices, choice)
	}
	return all, choices, nil
}

// lookups returns the lookups in the sets of the kernel that an IP set has for the family.
func (s ruleSide) lookups(field ruleset.Field, f family, id dataplane.IPSetID, not bool) (out []ruleset.Match) {
	set := s.lookup(id)
	for _, kind := range [...]partKind{partHosts, partNets} {
		if set.shape.has(kind, f) {
			out = append(out, ruleset.Lookup{Fields: []ruleset.Field{field}, Not: not, Set: set.part(partKey{kind, f}).name})
		}
	}
	return out
}

// prefixesOf returns the prefixes of one family, masked.
func prefixesOf(f family, nets []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, n := range nets {
		if familyOf(n.Addr()) == f {
			out = append(out, n.Masked())
		}
	}
	return out
}

// netMatch compares with one range or looks up several.
func netMatch(field ruleset.Field, nets []addrRange, not bool) ruleset.Match {
	elements := make([]ruleset.Element, len(nets))
	for i, n := range nets {
		elements[i] = n.element()
	}
	return elementsMatch(field, elements, not)
}

// elementsMatch compares with one element or looks up several.
func elementsMatch(field ruleset.Field, elements []ruleset.Element, not bool) ruleset.Match {
	if len(elements) == 1 {
		return ruleset.Compare{Field: field, Not: not, Value: elements[0].Key[0], Last: elements[0].Last}
	}
	return ruleset.In{Fields: []ruleset.Field{field}, Not: not, Elements: elements}
}

// portChoices returns the alternatives that the side's ports make: one of the ranges, or one of the
// sets (S45). The protocol must have ports.
func (s ruleSide) portChoices(f family) [][]ruleset.Match {
	m := s.match
	if len(m.Ports) == 0 && len(m.PortSets) == 0 {
		return [][]ruleset.Match{nil}
	}
	var out [][]ruleset.Match
	if len(m.Ports) > 0 {
		ranges := mergePorts(m.Ports)
		if allPorts(ranges) {
			return [][]ruleset.Match{nil}
		}
		out = append(out, []ruleset.Match{portMatch(s.portField(), ranges, false)})
	}
	for _, id := range m.PortSets {
		if s.lookup(id).shape.has(partPorts, f) { // S59, S92
			out = append(out, s.portSetMatches(f, id, false))
		}
	}
	return out
}

// notPortMatches returns the matches that exclude ports (S46, S48); never says that they exclude every one.
// The protocol must have ports.
func (s ruleSide) notPortMatches(f family) (out []ruleset.Match, never bool) {
	if len(s.match.NotPorts) > 0 {
		ranges := mergePorts(s.match.NotPorts)
		if allPorts(ranges) {
			return nil, true
		}
		out = append(out, portMatch(s.portField(), ranges, true))
	}
	for _, id := range s.match.NotPortSets {
		if s.lookup(id).shape.has(partPorts, f) {
			out = append(out, s.portSetMatches(f, id, true)...)
		}
	}
	return out, false
}

// portSetMatches looks (address, protocol, port) up in a set (S54). There is no looking up the port that a connection had before
// destination NAT: what was translated does not match then, negated or not.
func (s ruleSide) portSetMatches(f family, id dataplane.IPSetID, not bool) (out []ruleset.Match) {
	original := s.original && s.dst
	if original {
		out = append(out, notTranslated())
		s.original = false
	}
	return append(out, ruleset.Lookup{
		Fields: []ruleset.Field{s.addrField(f), ruleset.L4Proto, s.portField()},
		Not:    not,
		Set:    s.lookup(id).part(partKey{partPorts, f}).name,
	})
}

// mergePorts returns the fewest disjoint ranges, sorted.
func mergePorts(ports []policy.Port) []policy.Port {
	sorted := slices.SortedFunc(slices.Values(ports), func(a, b policy.Port) int { return cmp.Compare(a.First, b.First) })
	out := sorted[:0]
	for _, p := range sorted {
		if i := len(out) - 1; i >= 0 && int(p.First) <= int(out[i].Last)+1 { // int: 65535 has no successor
			out[i].Last = max(out[i].Last, p.Last)
			continue
		}
		out = append(out, p)
	}
	return out
}

// allPorts reports whether the merged ranges hold every port.
func allPorts(ranges []policy.Port) bool {
	return len(ranges) == 1 && ranges[0].First == 0 && ranges[0].Last == 65535
}

func portMatch(field ruleset.Field, ranges []policy.Port, not bool) ruleset.Match {
	elements := make([]ruleset.Element, len(ranges))
	for i, p := range ranges {
		elements[i].Key = []ruleset.Value{ruleset.Port(p.First)}
		if p.Last != p.First {
			elements[i].Last = ruleset.Port(p.Last)
		}
	}
	return elementsMatch(field, elements, not)
}
