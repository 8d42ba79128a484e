// SPDX-License-Identifier: Apache-2.0

package match

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// ProtocolGroup is a group of protocols for which a rule has the same matches on the transport
// header. If a group has several protocols, these matches are only on ports.
type ProtocolGroup struct {
	// In lists the protocols. If it is nil, the group has all protocols except those in NotIn.
	In, NotIn []policy.Protocol
	// HasPorts is set if the protocols have ports.
	HasPorts bool
}

// is reports whether the protocol is the only one of the group.
func (c ProtocolGroup) is(p policy.Protocol) bool { return len(c.In) == 1 && c.In[0] == p }

// WithPorts returns the protocols whose ports can be matched.
func WithPorts() []policy.Protocol {
	return []policy.Protocol{policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolSCTP}
}

// ProtocolGroups returns the disjoint groups of protocols that a rule can match.
func ProtocolGroups(rule *dataplane.Rule, f sets.Family) []ProtocolGroup {
	headers, err := familyHeaders(&rule.HeaderMatch, f)
	if err != nil {
		return nil
	}
	return protocolGroups(rule, f, headers)
}

func protocolGroups(rule *dataplane.Rule, f sets.Family, headers []headerMatch) []ProtocolGroup {
	needPorts := len(rule.Source.Ports)+len(rule.Source.PortSets)+
		len(rule.Destination.Ports)+len(rule.Destination.PortSets) > 0
	notPorts := len(rule.Source.NotPorts)+len(rule.Source.NotPortSets)+
		len(rule.Destination.NotPorts)+len(rule.Destination.NotPortSets) > 0

	must, mustNot := headerProtocols(f, headers)
	var groups []ProtocolGroup
	if p := rule.Protocol; p != 0 {
		groups = []ProtocolGroup{{In: []policy.Protocol{p}, HasPorts: p.HasPorts()}}
	} else {
		alone := slices.Compact(slices.Sorted(slices.Values(slices.Concat(must, mustNot))))
		rest := ProtocolGroup{NotIn: alone}
		if needPorts || notPorts {
			rest.NotIn = slices.Concat(WithPorts(), alone)
			others := slices.DeleteFunc(WithPorts(), func(p policy.Protocol) bool { return slices.Contains(alone, p) })
			if len(others) > 0 {
				groups = append(groups, ProtocolGroup{In: others, HasPorts: true})
			}
		}
		for _, p := range alone {
			groups = append(groups, ProtocolGroup{In: []policy.Protocol{p}, HasPorts: p.HasPorts()})
		}
		groups = append(groups, rest)
	}
	return slices.DeleteFunc(groups, func(c ProtocolGroup) bool {
		return needPorts && !c.HasPorts || slices.ContainsFunc(must, func(p policy.Protocol) bool { return !c.is(p) })
	})
}

// headerProtocols returns the protocols for which headers require some values (must), and those for
// which headers exclude some values (mustNot).
func headerProtocols(f sets.Family, headers []headerMatch) (must, mustNot []policy.Protocol) {
	for _, h := range headers {
		switch p := h.protocol(f); {
		case p == 0:
		case len(h.any) > 0:
			must = append(must, p)
		default:
			mustNot = append(mustNot, p)
		}
	}
	return must, mustNot
}

// matches returns the matches on the protocol and on the fields of its header, as alternatives that
// do not overlap.
func (c ProtocolGroup) matches(
	rule *dataplane.Rule, f sets.Family, headers []headerMatch,
) ([][]ruleset.Match, error) {
	if not := rule.NotProtocol; not != 0 {
		if c.In == nil {
			c.NotIn = append(slices.Clone(c.NotIn), not)
		} else if i := slices.Index(c.In, not); i >= 0 {
			c.In = slices.Delete(slices.Clone(c.In), i, i+1)
			if len(c.In) == 0 {
				return nil, errNoMatch
			}
		}
	}
	out := Protocols(c.In, false)
	if c.In == nil {
		out = Protocols(c.NotIn, true)
	}
	if len(c.In) != 1 || len(headers) == 0 {
		return [][]ruleset.Match{out}, nil
	}
	alts, err := headerAlternatives(headers, f, c.In[0])
	for i, own := range alts {
		alts[i] = slices.Concat(out, own)
	}
	return alts, err
}

// Protocols returns a match on the protocols in a list, or on all others if the last parameter is
// true. For an empty list, Protocols returns nil, so every protocol matches.
func Protocols(protos []policy.Protocol, not bool) []ruleset.Match {
	protos = slices.Compact(slices.Sorted(slices.Values(protos)))
	switch len(protos) {
	case 0:
		return nil
	case 1:
		return []ruleset.Match{ruleset.Compare{Field: ruleset.L4Proto, Not: not, Value: ruleset.Byte(uint8(protos[0]))}}
	}
	in := ruleset.In{Fields: []ruleset.Field{ruleset.L4Proto}, Not: not}
	for _, p := range protos {
		in.Elements = append(in.Elements, ruleset.Element{Key: []ruleset.Value{ruleset.Byte(uint8(p))}})
	}
	return []ruleset.Match{in}
}

// portMatches returns the matches on ports, as alternatives. Each alternative combines a match on
// the source port with a match on the destination port. If there are no alternatives, no packet
// matches.
func (c ProtocolGroup) portMatches(f sets.Family, src, dst ruleSide) [][]ruleset.Match {
	if !c.HasPorts {
		return [][]ruleset.Match{nil} // negated ports hold; rules with other ports were excluded before
	}
	var out [][]ruleset.Match
	notSrc, srcNever := src.notPortMatches(f)
	notDst, dstNever := dst.notPortMatches(f)
	if srcNever || dstNever {
		return nil
	}
	for _, s := range src.portChoices(f) {
		for _, d := range dst.portChoices(f) {
			out = append(out, slices.Concat(s, notSrc, d, notDst))
		}
	}
	return out
}
