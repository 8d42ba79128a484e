// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// ruleSide is the source or the destination side of a rule.
type ruleSide struct {
	Matcher
	match *dataplane.Match
	dst   bool
}

// addrField returns the field of the side's address.
func (s ruleSide) addrField(f sets.Family) ruleset.Field {
	switch {
	case s.Original && s.dst:
		return OriginalDaddr(f)
	case s.dst:
		return Daddr(f)
	default:
		return Saddr(f)
	}
}

// Saddr returns the field of the source address.
func Saddr(f sets.Family) ruleset.Field {
	if f == sets.IPv4 {
		return ruleset.IPSaddr
	}
	return ruleset.IP6Saddr
}

// Daddr returns the field of the destination address.
func Daddr(f sets.Family) ruleset.Field {
	if f == sets.IPv4 {
		return ruleset.IPDaddr
	}
	return ruleset.IP6Daddr
}

// OriginalDaddr returns the field of the destination address before destination NAT.
func OriginalDaddr(f sets.Family) ruleset.Field {
	if f == sets.IPv4 {
		return ruleset.CtOriginalDaddr
	}
	return ruleset.CtOriginalDaddr6
}

// portField returns the field of the side's port.
func (s ruleSide) portField() ruleset.Field {
	switch {
	case s.Original && s.dst:
		return ruleset.CtOriginalDport
	case s.dst:
		return ruleset.Dport
	default:
		return ruleset.Sport
	}
}

// addrMatches returns the matches on the address of the side. choices has lists of lookups: one
// lookup of each list must match. The method returns errNoMatch in three cases:
//
//   - a list without a prefix of the family (S68),
//   - a list that excludes every address (S69),
//   - an empty IP set (S92).
func (s ruleSide) addrMatches(f sets.Family) (all []ruleset.Match, choices [][]ruleset.Match, err error) {
	field := s.addrField(f)
	if len(s.match.Nets) > 0 {
		nets := sets.MergeNets(sets.PrefixesOf(f, s.match.Nets))
		if len(nets) == 0 {
			return nil, nil, errNoMatch
		}
		if !nets[0].Everything() { // S70: there is a match on the family anyway
			all = append(all, Nets(field, nets, false))
		}
	}
	if len(s.match.NotNets) > 0 {
		if nets := sets.MergeNets(sets.PrefixesOf(f, s.match.NotNets)); len(nets) > 0 {
			if nets[0].Everything() {
				return nil, nil, errNoMatch
			}
			all = append(all, Nets(field, nets, true))
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

// lookups returns the lookups in the kernel's sets of an IP set for the family.
func (s ruleSide) lookups(field ruleset.Field, f sets.Family, id dataplane.IPSetID, not bool) (out []ruleset.Match) {
	set := s.Lookup(id)
	for _, kind := range [...]sets.Kind{sets.Hosts, sets.Nets} {
		if name, ok := set.Lookup(kind, f); ok {
			out = append(out, ruleset.Lookup{Fields: []ruleset.Field{field}, Not: not, Set: name})
		}
	}
	return out
}

// Nets returns a match for packets whose field has an address in one of the ranges. If the last
// parameter is true, the address must be in none of the ranges.
func Nets(field ruleset.Field, nets []sets.Range, not bool) ruleset.Match {
	elements := make([]ruleset.Element, len(nets))
	for i, n := range nets {
		elements[i] = n.Element()
	}
	return elementsMatch(field, elements, not)
}

// elementsMatch compares with a single element, or looks up several.
func elementsMatch(field ruleset.Field, elements []ruleset.Element, not bool) ruleset.Match {
	if len(elements) == 1 {
		return ruleset.Compare{Field: field, Not: not, Value: elements[0].Key[0], Last: elements[0].Last}
	}
	return ruleset.In{Fields: []ruleset.Field{field}, Not: not, Elements: elements}
}

// portChoices returns the alternatives for the side's ports: one for the ranges, and one for each
// of the sets (S45). The protocol must have ports.
func (s ruleSide) portChoices(f sets.Family) [][]ruleset.Match {
	m := s.match
	if len(m.Ports) == 0 && len(m.PortSets) == 0 {
		return [][]ruleset.Match{nil}
	}
	var out [][]ruleset.Match
	if len(m.Ports) > 0 {
		ranges := MergePorts(m.Ports)
		if AllPorts(ranges) {
			return [][]ruleset.Match{nil}
		}
		out = append(out, []ruleset.Match{Ports(s.portField(), ranges, false)})
	}
	for _, id := range m.PortSets {
		if name, ok := s.Lookup(id).Lookup(sets.Ports, f); ok { // S59, S92
			out = append(out, s.portSetMatches(f, name, false))
		}
	}
	return out
}

// notPortMatches returns the matches that exclude ports (S46, S48). never is set if they exclude
// every port. The protocol must have ports.
func (s ruleSide) notPortMatches(f sets.Family) (out []ruleset.Match, never bool) {
	if len(s.match.NotPorts) > 0 {
		ranges := MergePorts(s.match.NotPorts)
		if AllPorts(ranges) {
			return nil, true
		}
		out = append(out, Ports(s.portField(), ranges, true))
	}
	for _, id := range s.match.NotPortSets {
		if name, ok := s.Lookup(id).Lookup(sets.Ports, f); ok {
			out = append(out, s.portSetMatches(f, name, true)...)
		}
	}
	return out, false
}

// portSetMatches returns a lookup of address, protocol and port in a set (S54). The port that a
// connection had before destination NAT cannot be looked up. So a translated packet does not match
// then, negated or not.
func (s ruleSide) portSetMatches(f sets.Family, set string, not bool) (out []ruleset.Match) {
	original := s.Original && s.dst
	if original {
		out = append(out, NotTranslated())
		s.Original = false
	}
	return append(out, ruleset.Lookup{
		Fields: []ruleset.Field{s.addrField(f), ruleset.L4Proto, s.portField()},
		Not:    not,
		Set:    set,
	})
}

// MergePorts returns the fewest ranges that together have exactly the given ports, sorted.
func MergePorts(ports []policy.Port) []policy.Port {
	sorted := slices.SortedFunc(
		slices.Values(ports), func(a, b policy.Port) int { return cmp.Compare(a.First, b.First) },
	)
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

// AllPorts reports whether merged ranges contain every port.
func AllPorts(ranges []policy.Port) bool {
	return len(ranges) == 1 && ranges[0].First == 0 && ranges[0].Last == 65535
}

// Ports returns a match for packets whose field has a port in one of the ranges. If the last
// parameter is true, the port must be in none of the ranges.
func Ports(field ruleset.Field, ranges []policy.Port, not bool) ruleset.Match {
	elements := make([]ruleset.Element, len(ranges))
	for i, p := range ranges {
		elements[i].Key = []ruleset.Value{ruleset.Port(p.First)}
		if p.Last != p.First {
			elements[i].Last = ruleset.Port(p.Last)
		}
	}
	return elementsMatch(field, elements, not)
}

// NotTranslated matches packets of connections whose destination was not translated.
func NotTranslated() ruleset.Match {
	return ruleset.Compare{Field: ruleset.CtStatus, Not: true, Value: ruleset.Uint32(ruleset.CtDNAT)}
}
