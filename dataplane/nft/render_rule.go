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
//   - numeric ports or named ports: a choice between two lookups, on each side.

// errNoMatch says that a rule, or its part for one family or protocol, never matches.
var errNoMatch = errors.New("no match")

// alternatives returns the matches of each alternative. None means that no packet matches. Overlap says
// that a packet may match more than one.
//
// Errors: the rule cannot be understood, or refers to a set that does not exist.
func (r *Renderer) alternatives(rule *dataplane.Rule) (alts [][]ruleset.Match, overlap bool, err error) {
	if err := r.checkRule(rule); err != nil {
		return nil, false, err
	}
	src, dst := ruleSide{&rule.Source, false}, ruleSide{&rule.Destination, true}
	for _, f := range ruleFamilies(rule) {
		head, err := familyMatches(f, src, dst)
		if errors.Is(err, errNoMatch) {
			continue
		}
		for _, class := range ruleClasses(rule, f) {
			common, err := class.matches(rule, f)
			if errors.Is(err, errNoMatch) {
				continue
			}
			for _, ports := range class.portMatches(f, src, dst) {
				alts = append(alts, slices.Concat(head, common, ports))
			}
		}
	}
	return alts, src.choices() > 1 || dst.choices() > 1, nil
}

// checkRule reports what of the rule cannot be understood.
func (r *Renderer) checkRule(rule *dataplane.Rule) error {
	if v := rule.IPVersion; v != 0 && v != 4 && v != 6 {
		return fmt.Errorf("IP version %d", v)
	}
	for _, i := range []*policy.ICMP{rule.ICMP, rule.NotICMP} {
		if i != nil && (!fitsByte(i.Type) || !fitsByte(i.Code)) {
			return errors.New("ICMP type or code out of range")
		}
	}
	for _, m := range []*dataplane.Match{&rule.Source, &rule.Destination} {
		for _, p := range slices.Concat(m.Ports, m.NotPorts) {
			if p.Name != "" || p.First > p.Last {
				return fmt.Errorf("port %q %d-%d", p.Name, p.First, p.Last)
			}
		}
		for _, n := range slices.Concat(m.Nets, m.NotNets) {
			if !n.IsValid() || n.Addr().Is4In6() {
				return fmt.Errorf("prefix %s", n)
			}
		}
		if err := r.checkSets(dataplane.IPSetNets, m.Sets, m.NotSets); err != nil {
			return err
		}
		if err := r.checkSets(dataplane.IPSetPorts, m.PortSets, m.NotPortSets); err != nil {
			return err
		}
	}
	return nil
}

func fitsByte(v *int) bool { return v == nil || *v >= 0 && *v <= 255 }

// checkSets reports sets that do not exist, are of another type or cannot be rendered.
func (r *Renderer) checkSets(typ dataplane.IPSetType, lists ...[]dataplane.IPSetID) error {
	for _, id := range slices.Concat(lists...) {
		s := r.sets[id]
		if s == nil {
			return fmt.Errorf("IP set %s does not exist", id)
		}
		if s.typ != typ {
			return fmt.Errorf("IP set %s is of type %d, want %d", id, s.typ, typ)
		}
		if _, err := s.render(); err != nil {
			return err
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
	for _, f := range []family{ipv4, ipv6} {
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

// familyMatches returns the matches on the family and on the addresses of both sides.
func familyMatches(f family, sides ...ruleSide) ([]ruleset.Match, error) {
	if f == anyFamily {
		return nil, nil
	}
	nfproto := ruleset.NFProtoIPv4
	if f == ipv6 {
		nfproto = ruleset.NFProtoIPv6
	}
	out := []ruleset.Match{ruleset.Compare{Field: ruleset.NFProto, Value: ruleset.Byte(nfproto)}}
	for _, s := range sides {
		ms, err := s.addrMatches(f)
		if err != nil {
			return nil, err
		}
		out = append(out, ms...)
	}
	return out, nil
}

// icmpOf returns the family's ICMP protocol.
func icmpOf(f family) policy.Protocol {
	if f == ipv6 {
		return policy.ProtocolICMPv6
	}
	return policy.ProtocolICMP
}
