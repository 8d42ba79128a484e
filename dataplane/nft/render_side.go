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
	match *dataplane.Match
	dst   bool
}

// addrField returns the field of the side's address.
func (s ruleSide) addrField(f family) ruleset.Field {
	switch {
	case f == ipv4 && s.dst:
		return ruleset.IPDaddr
	case f == ipv4:
		return ruleset.IPSaddr
	case s.dst:
		return ruleset.IP6Daddr
	default:
		return ruleset.IP6Saddr
	}
}

// portField returns the field of the side's port.
func (s ruleSide) portField() ruleset.Field {
	if s.dst {
		return ruleset.Dport
	}
	return ruleset.Sport
}

// addrMatches returns the matches on the side's address. A field that is empty for the family
// because all its prefixes are of the other one never matches (S68); neither does one that excludes everything (S69).
func (s ruleSide) addrMatches(f family) ([]ruleset.Match, error) {
	var out []ruleset.Match
	field := s.addrField(f)
	if len(s.match.Nets) > 0 {
		nets := mergeNets(ofFamily(s.match.Nets, f))
		if len(nets) == 0 {
			return nil, errNoMatch
		}
		if !nets[0].everything() { // S70: the match on the family is there anyway
			out = append(out, netMatch(field, nets, false))
		}
	}
	if nets := mergeNets(ofFamily(s.match.NotNets, f)); len(nets) > 0 {
		if nets[0].everything() {
			return nil, errNoMatch
		}
		out = append(out, netMatch(field, nets, true))
	}
	for _, id := range s.match.Sets { // S44: in every one
		out = append(out, ruleset.Lookup{Fields: []ruleset.Field{field}, Set: setName(id, dataplane.IPSetNets, f)})
	}
	for _, id := range s.match.NotSets {
		out = append(out, ruleset.Lookup{Fields: []ruleset.Field{field}, Not: true, Set: setName(id, dataplane.IPSetNets, f)})
	}
	return out, nil
}

// ofFamily returns the prefixes of one family, masked.
func ofFamily(nets []netip.Prefix, f family) []netip.Prefix {
	var out []netip.Prefix
	for _, n := range nets {
		if f.of(n.Addr()) {
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

// choices returns how many alternatives the side's ports make.
func (s ruleSide) choices() int {
	n := len(s.match.PortSets)
	if len(s.match.Ports) > 0 {
		n++
	}
	return max(n, 1)
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
		out = append(out, []ruleset.Match{s.portSetMatch(f, id, false)})
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
		out = append(out, s.portSetMatch(f, id, true))
	}
	return out, false
}

// portSetMatch looks (address, protocol, port) up in a set (S54).
func (s ruleSide) portSetMatch(f family, id dataplane.IPSetID, not bool) ruleset.Match {
	return ruleset.Lookup{
		Fields: []ruleset.Field{s.addrField(f), ruleset.L4Proto, s.portField()},
		Not:    not,
		Set:    setName(id, dataplane.IPSetPorts, f),
	}
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
