// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// A rule of policy becomes several rules of nftables, its alternatives: a packet matches the rule
// if and only if it matches one of them. What makes them several:
//
//   - the family: nftables has other fields for IPv6 than for IPv4;
//   - the protocol: negated ports hold for packets that have no ports, and reading the ports of
//     such a packet could fail, which fails the rule;
//   - numeric ports or named ports: a choice between two lookups, on each side;
//   - an IP set with both addresses and prefixes, which are two sets of the kernel. Whichever of them is empty does not
//     exist: no rule asks for it.

// errNoMatch says that a rule, or its part for one family or protocol, never matches.
var errNoMatch = errors.New("no match")

// matcher makes the matches of rules. Its lookup finds IP sets, which need not exist.
type matcher struct {
	lookup func(dataplane.IPSetID) *ipSet
	// original looks at the destination that the packet had before destination NAT.
	original bool
}

// alternatives returns the matches of each alternative. None means that no packet matches. Overlap says
// that a packet may match more than one.
//
// Errors: the rule cannot be understood, or refers to a set that does not exist.
func (m matcher) alternatives(rule *dataplane.Rule) (alts [][]ruleset.Match, overlap bool, err error) {
	if err := m.checkRule(rule); err != nil {
		return nil, false, err
	}
	src := ruleSide{m, &rule.Source, false}
	dst := ruleSide{m, &rule.Destination, true}
	for _, f := range ruleFamilies(rule) {
		heads, err := familyMatches(f, src, dst)
		if errors.Is(err, errNoMatch) {
			continue
		}
		overlap = overlap || len(heads) > 1
		for _, class := range ruleClasses(rule, f) {
			common, err := class.matches(rule, f)
			if errors.Is(err, errNoMatch) {
				continue
			}
			choices := class.portMatches(f, src, dst)
			overlap = overlap || len(choices) > 1
			for _, head := range heads {
				for _, ports := range choices {
					alts = append(alts, slices.Concat(head, common, ports))
				}
			}
		}
	}
	return alts, overlap, nil
}

// checkRule reports what of the rule cannot be understood.
func (m matcher) checkRule(rule *dataplane.Rule) error {
	if v := rule.IPVersion; v != 0 && v != 4 && v != 6 {
		return fmt.Errorf("IP version %d", v)
	}
	for _, i := range [...]*policy.ICMP{rule.ICMP, rule.NotICMP} {
		if i != nil && (!fitsByte(i.Type) || !fitsByte(i.Code)) {
			return errors.New("ICMP type or code out of range")
		}
	}
	for _, side := range [...]*dataplane.Match{&rule.Source, &rule.Destination} {
		for _, ports := range [...][]policy.Port{side.Ports, side.NotPorts} {
			for _, p := range ports {
				if p.Name != "" || p.First > p.Last {
					return fmt.Errorf("port %q %d-%d", p.Name, p.First, p.Last)
				}
			}
		}
		for _, n := range slices.Concat(side.Nets, side.NotNets) {
			if !n.IsValid() || n.Addr().Is4In6() {
				return fmt.Errorf("prefix %s", n)
			}
		}
		if err := m.checkSets(dataplane.IPSetNets, side.Sets, side.NotSets); err != nil {
			return err
		}
		if err := m.checkSets(dataplane.IPSetPorts, side.PortSets, side.NotPortSets); err != nil {
			return err
		}
	}
	return nil
}

func fitsByte(v *int) bool { return v == nil || *v >= 0 && *v <= 255 }

// checkSets reports sets that do not exist, are of another type or cannot be rendered.
func (m matcher) checkSets(typ dataplane.IPSetType, lists ...[]dataplane.IPSetID) error {
	for _, list := range lists {
		for _, id := range list {
			s := m.lookup(id)
			if err := s.err(); err != nil {
				return err
			}
			if s.typ != typ {
				return fmt.Errorf("IP set %s is of type %d, want %d", id, s.typ, typ)
			}
		}
	}
	return nil
}

// ruleFamilies returns the families that the rule is rendered for: both at once if nothing in it
// depends on the family.
func ruleFamilies(rule *dataplane.Rule) []family {
	var out []family
	if rule.IPVersion == 0 && rule.ICMP == nil && rule.NotICMP == nil && rule.Protocol != policy.ProtocolICMP &&
		rule.Protocol != policy.ProtocolICMPv6 && !hasAddresses(&rule.Source) && !hasAddresses(&rule.Destination) {
		return []family{anyFamily}
	}
	for _, f := range families() {
		other := policy.ProtocolICMPv6
		if f == ipv6 {
			other = policy.ProtocolICMP
		}
		if (rule.IPVersion == 0 || rule.IPVersion == int(f)) && rule.Protocol != other { // S66, S67
			out = append(out, f)
		}
	}
	return out
}

// hasAddresses reports whether the side looks at addresses.
func hasAddresses(m *dataplane.Match) bool {
	return len(m.Nets)+len(m.NotNets)+len(m.Sets)+len(m.NotSets)+len(m.PortSets)+len(m.NotPortSets) > 0
}

// familyMatches returns the matches on the family and on the addresses of both sides, as alternatives.
func familyMatches(f family, sides ...ruleSide) ([][]ruleset.Match, error) {
	if f == anyFamily {
		return [][]ruleset.Match{nil}, nil
	}
	out := [][]ruleset.Match{{ofFamily(f)}}
	for _, s := range sides {
		ms, choices, err := s.addrMatches(f)
		if err != nil {
			return nil, err
		}
		for i := range out {
			out[i] = append(out[i], ms...)
		}
		for _, choice := range choices { // S44: in every one of the sets
			out = product(out, choice)
		}
	}
	return out, nil
}

// product adds each of the choices to each of the alternatives.
func product(alts [][]ruleset.Match, choices []ruleset.Match) [][]ruleset.Match {
	if len(choices) == 1 {
		for i := range alts {
			alts[i] = append(alts[i], choices[0])
		}
		return alts
	}
	var out [][]ruleset.Match
	for _, alt := range alts {
		for _, c := range choices {
			out = append(out, append(slices.Clip(alt), c))
		}
	}
	return out
}

// ofFamily matches the packets of a family.
func ofFamily(f family) ruleset.Match {
	nfproto := ruleset.NFProtoIPv4
	if f == ipv6 {
		nfproto = ruleset.NFProtoIPv6
	}
	return ruleset.Compare{Field: ruleset.NFProto, Value: ruleset.Byte(nfproto)}
}

// icmpOf returns the family's ICMP protocol.
func icmpOf(f family) policy.Protocol {
	if f == ipv6 {
		return policy.ProtocolICMPv6
	}
	return policy.ProtocolICMP
}
