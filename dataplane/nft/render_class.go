// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// protoClass is a part of all protocols within which a rule's matches on ports and ICMP mean the same.
type protoClass struct {
	// in lists the protocols; if it is nil, they are all but notIn.
	in, notIn []policy.Protocol
	// ports and icmp say what the protocols have to look at.
	ports, icmp bool
}

// withPorts returns the protocols whose ports can be matched.
func withPorts() []policy.Protocol {
	return []policy.Protocol{policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolSCTP}
}

// ruleClasses returns the classes in which the rule can match. They are disjoint.
func ruleClasses(rule *dataplane.Rule, f family) []protoClass {
	needPorts := len(rule.Source.Ports)+len(rule.Source.PortSets)+
		len(rule.Destination.Ports)+len(rule.Destination.PortSets) > 0
	notPorts := len(rule.Source.NotPorts)+len(rule.Source.NotPortSets)+
		len(rule.Destination.NotPorts)+len(rule.Destination.NotPortSets) > 0

	var classes []protoClass
	if p := rule.Protocol; p != 0 {
		classes = []protoClass{{in: []policy.Protocol{p}, ports: p.HasPorts(), icmp: f != anyFamily && p == icmpOf(f)}}
	} else {
		rest := protoClass{}
		if needPorts || notPorts {
			rest.notIn = append(rest.notIn, withPorts()...)
			classes = append(classes, protoClass{in: withPorts(), ports: true})
		}
		if rule.ICMP != nil || rule.NotICMP != nil {
			rest.notIn = append(rest.notIn, icmpOf(f))
			classes = append(classes, protoClass{in: []policy.Protocol{icmpOf(f)}, icmp: true})
		}
		classes = append(classes, rest)
	}
	return slices.DeleteFunc(classes, func(c protoClass) bool {
		return needPorts && !c.ports || rule.ICMP != nil && !c.icmp
	})
}

// matches returns the matches on the protocol and on ICMP.
func (c protoClass) matches(rule *dataplane.Rule, f family) ([]ruleset.Match, error) {
	if not := rule.NotProtocol; not != 0 {
		if c.in == nil {
			c.notIn = append(slices.Clone(c.notIn), not)
		} else if i := slices.Index(c.in, not); i >= 0 {
			c.in = slices.Delete(slices.Clone(c.in), i, i+1)
			if len(c.in) == 0 {
				return nil, errNoMatch
			}
		}
	}
	out := protoMatches(c.in, false)
	if c.in == nil {
		out = protoMatches(c.notIn, true)
	}
	if !c.icmp {
		return out, nil
	}
	if rule.ICMP != nil {
		out = append(out, icmpMatches(f, rule.ICMP)...)
	}
	if rule.NotICMP != nil {
		not, err := notICMPMatch(f, rule.NotICMP)
		if err != nil {
			return nil, err
		}
		out = append(out, not)
	}
	return out, nil
}

// protoMatches returns the match on a list of protocols, if there is one.
func protoMatches(protos []policy.Protocol, not bool) []ruleset.Match {
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

// icmpFields returns the family's fields for type and code.
func icmpFields(f family) (typ, code ruleset.Field) {
	if f == ipv6 {
		return ruleset.ICMPv6Type, ruleset.ICMPv6Code
	}
	return ruleset.ICMPType, ruleset.ICMPCode
}

// icmpMatches returns the matches on type and code.
func icmpMatches(f family, i *policy.ICMP) []ruleset.Match {
	var out []ruleset.Match
	typ, code := icmpFields(f)
	if i.Type != nil {
		out = append(out, ruleset.Compare{Field: typ, Value: ruleset.Byte(uint8(*i.Type))})
	}
	if i.Code != nil {
		out = append(out, ruleset.Compare{Field: code, Value: ruleset.Byte(uint8(*i.Code))})
	}
	return out
}

// notICMPMatch returns the match that excludes a type, or just one code of it (S64).
func notICMPMatch(f family, i *policy.ICMP) (ruleset.Match, error) {
	typ, code := icmpFields(f)
	switch {
	case i.Type != nil && i.Code != nil:
		return ruleset.In{Fields: []ruleset.Field{typ, code}, Not: true, Elements: []ruleset.Element{
			{Key: []ruleset.Value{ruleset.Byte(uint8(*i.Type)), ruleset.Byte(uint8(*i.Code))}},
		}}, nil
	case i.Type != nil:
		return ruleset.Compare{Field: typ, Not: true, Value: ruleset.Byte(uint8(*i.Type))}, nil
	case i.Code != nil:
		return ruleset.Compare{Field: code, Not: true, Value: ruleset.Byte(uint8(*i.Code))}, nil
	default:
		return nil, errNoMatch // all ICMP is excluded
	}
}

// portMatches returns the matches on ports, as alternatives: one for each choice of a range list or a set on
// the source side with one on the destination side. No alternative means no match.
func (c protoClass) portMatches(f family, src, dst ruleSide) [][]ruleset.Match {
	if !c.ports {
		return [][]ruleset.Match{nil} // negated ports hold, others were ruled out
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
