// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// errNoMatch means that a rule matches no packet, or no packet of one family or protocol.
var errNoMatch = errors.New("no match")

// Matcher makes the matches of rules.
type Matcher struct {
	// Lookup returns the IP set with the ID. The result is not nil, even if the IP set does not
	// exist: see IPSet.Exists.
	Lookup func(dataplane.IPSetID) *sets.IPSet
	// Original is set if rules match the destination that the packet had before destination NAT.
	Original bool
}

// Alternatives returns the matches of the nftables rules that a policy rule needs. These rules are
// alternatives: a packet matches the policy rule if it matches one of them. If there are none, no
// packet matches the policy rule. overlap is set if a packet may match more than one alternative.
//
// Errors: as for Check.
func (m Matcher) Alternatives(rule *dataplane.Rule) (alts [][]ruleset.Match, overlap bool, err error) {
	if err := m.Check(rule); err != nil {
		return nil, false, err
	}
	for _, f := range FamiliesOf(rule) {
		headers, err := familyHeaders(&rule.HeaderMatch, f)
		if errors.Is(err, errNoMatch) {
			continue
		}
		some, overlaps := m.ofFamily(rule, f, headers)
		alts, overlap = append(alts, some...), overlap || overlaps
	}
	return alts, overlap, nil
}

// ofFamily returns the alternatives for packets of a family. headers are the matches on their
// header fields.
func (m Matcher) ofFamily(
	rule *dataplane.Rule, f sets.Family, headers []headerMatch,
) (alts [][]ruleset.Match, overlap bool) {
	src := ruleSide{m, &rule.Source, false}
	dst := ruleSide{m, &rule.Destination, true}
	heads, err := familyMatches(f, src, dst)
	if errors.Is(err, errNoMatch) {
		return nil, false
	}
	overlap = len(heads) > 1
	network, err := headerAlternatives(headers, f, 0)
	if errors.Is(err, errNoMatch) {
		return nil, overlap
	}
	for _, group := range protocolGroups(rule, f, headers) {
		transport, err := group.matches(rule, f, headers)
		if errors.Is(err, errNoMatch) {
			continue
		}
		choices := group.portMatches(f, src, dst)
		overlap = overlap || len(choices) > 1
		for _, head := range heads {
			for _, ip := range network {
				for _, own := range transport {
					for _, ports := range choices {
						alts = append(alts, slices.Concat(head, ip, own, ports))
					}
				}
			}
		}
	}
	return alts, overlap
}

// Check returns an error if a rule cannot be rendered. Such a rule has an unknown field, an invalid
// value such as a named port, or a bad IP set. A bad IP set does not exist, has the wrong type, or
// cannot be rendered.
func (m Matcher) Check(rule *dataplane.Rule) error {
	if !Known(*rule) {
		return errUnknownField
	}
	if v := rule.IPVersion; v != 0 && v != 4 && v != 6 {
		return fmt.Errorf("IP version %d", v)
	}
	if err := checkHeader(&rule.HeaderMatch); err != nil {
		return err
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

// checkSets returns an error for IP sets that do not exist, are of another type or cannot be
// rendered.
func (m Matcher) checkSets(typ dataplane.IPSetType, lists ...[]dataplane.IPSetID) error {
	for _, list := range lists {
		for _, id := range list {
			if err := m.Lookup(id).Check(typ); err != nil {
				return err
			}
		}
	}
	return nil
}

// FamiliesOf returns the families for which the rule is rendered. If nothing in the rule depends on
// the family, the result is only sets.AnyFamily: the rule is rendered once, for both IPv4 and IPv6.
// Otherwise, the result depends on the IP version and the protocol of the rule: it has IPv4, IPv6,
// both or neither.
func FamiliesOf(rule *dataplane.Rule) []sets.Family {
	var out []sets.Family
	if ForAnyFamily(*rule) {
		return []sets.Family{sets.AnyFamily}
	}
	for _, f := range sets.Families() {
		other := policy.ProtocolICMPv6
		if f == sets.IPv6 {
			other = policy.ProtocolICMP
		}
		if (rule.IPVersion == 0 || rule.IPVersion == int(f)) && rule.Protocol != other { // S66, S67
			out = append(out, f)
		}
	}
	return out
}

// familyMatches returns the matches on the family and on the addresses of both sides, as
// alternatives.
func familyMatches(f sets.Family, sides ...ruleSide) ([][]ruleset.Match, error) {
	if f == sets.AnyFamily {
		return [][]ruleset.Match{nil}, nil
	}
	out := [][]ruleset.Match{{OfFamily(f)}}
	for _, s := range sides {
		ms, choices, err := s.addrMatches(f)
		if err != nil {
			return nil, err
		}
		for i := range out {
			out[i] = append(out[i], ms...)
		}
		for _, choice := range choices { // S44: the address is in every one of the sets
			out = product(out, choice)
		}
	}
	return out, nil
}

// product returns all combinations of an alternative and a choice.
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

// OfFamily matches the packets of a family.
func OfFamily(f sets.Family) ruleset.Match {
	nfproto := ruleset.NFProtoIPv4
	if f == sets.IPv6 {
		nfproto = ruleset.NFProtoIPv6
	}
	return ruleset.Compare{Field: ruleset.NFProto, Value: ruleset.Byte(nfproto)}
}
