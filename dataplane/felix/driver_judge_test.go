// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/policy"
)

// The driver's own evaluation of the messages. It shares no code with the package that encodes
// them.

func protocolNumbers() map[string]int32 {
	return map[string]int32{"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132, "udplite": 136}
}

// felixPacket is a packet with the values that messages match.
type felixPacket struct {
	src, dst         netip.Addr
	protocol         int32
	srcPort, dstPort uint16
	icmpType, code   int32
}

func (p felixPacket) hasPorts() bool { return p.protocol == 6 || p.protocol == 17 || p.protocol == 132 }

// judge reports whether both endpoints of a packet let it pass.
func (s *felixState) judge(p dptest.Packet) (bool, error) {
	if !s.inSync {
		return false, fmt.Errorf("not in sync")
	}
	pkt := felixPacket{
		src: p.Src, dst: p.Dst, protocol: int32(p.Protocol), srcPort: p.SrcPort, dstPort: p.DstPort,
		icmpType: int32(p.ICMPType), code: int32(p.ICMPCode),
	}
	for _, side := range []struct {
		key     policy.Key
		ingress bool
	}{{p.From, false}, {p.To, true}} {
		if side.key == (policy.Key{}) {
			continue
		}
		id := strings.TrimPrefix(side.key.Namespace+"/"+side.key.Name, "/")
		allowed, err := s.allows(s.workloads[id], pkt, side.ingress)
		if err != nil || !allowed {
			return false, err
		}
	}
	return true, nil
}

// allows evaluates the policy of an endpoint in a direction. It allows what existing drivers allow:
// that of VPP ignores the state, and allows a direction without policies if there are no profiles.
// A Pass in a profile leads to the next profile, as in the chains of Felix.
func (s *felixState) allows(e *felixpb.WorkloadEndpoint, p felixPacket, ingress bool) (bool, error) {
	if e == nil {
		return false, nil
	}
	rulesOf := func(r ruled) []*felixpb.Rule {
		if ingress {
			return r.GetInboundRules()
		}
		return r.GetOutboundRules()
	}
	policies := false
	for _, tier := range e.Tiers {
		refs := tier.EgressPolicies
		if ingress {
			refs = tier.IngressPolicies
		}
		if len(refs) == 0 {
			continue
		}
		policies = true
		decision := map[string]string{"Pass": "pass", "Deny": "deny"}[tier.DefaultAction]
		for _, ref := range refs {
			id, err := s.reference(tier.Name, ref)
			if err != nil || s.policies[id] == nil {
				return false, fmt.Errorf("policy %q: %w", id, err)
			}
			action, err := s.first(rulesOf(s.policies[id].Policy), p)
			if err != nil {
				return false, err
			}
			if action != "" {
				decision = action
				break
			}
		}
		if decision != "pass" {
			return decision == "allow", nil
		}
	}
	for _, name := range e.ProfileIds {
		action, err := s.first(rulesOf(s.profiles[name]), p)
		if err != nil || action == "allow" || action == "deny" {
			return action == "allow", err
		}
	}
	return !policies && len(e.ProfileIds) == 0, nil
}

// first returns the action of the first rule that matches and decides.
func (s *felixState) first(rules []*felixpb.Rule, p felixPacket) (string, error) {
	for _, r := range rules {
		matches, err := s.matches(r, p)
		if err != nil {
			return "", err
		}
		if !matches {
			continue
		}
		switch r.Action {
		case "allow", "deny":
			return r.Action, nil
		case "next-tier":
			return "pass", nil
		case "log":
		default:
			return "", fmt.Errorf("unknown action %q", r.Action)
		}
	}
	return "", nil
}

func (s *felixState) matches(r *felixpb.Rule, p felixPacket) (bool, error) {
	if len(r.ProtoReflect().GetUnknown()) > 0 {
		return false, fmt.Errorf("unknown fields in a rule")
	}
	src, err := s.side(p.src, p.srcPort, p, r.SrcNet, r.NotSrcNet, r.SrcIpSetIds, r.NotSrcIpSetIds, r.SrcPorts,
		r.NotSrcPorts, r.SrcNamedPortIpSetIds, r.NotSrcNamedPortIpSetIds)
	if err != nil || !src {
		return false, err
	}
	dst, err := s.side(p.dst, p.dstPort, p, r.DstNet, r.NotDstNet, r.DstIpSetIds, r.NotDstIpSetIds, r.DstPorts,
		r.NotDstPorts, r.DstNamedPortIpSetIds, r.NotDstNamedPortIpSetIds)
	if err != nil || !dst {
		return false, err
	}
	for _, id := range r.DstIpPortSetIds {
		if !s.sets[id].hasPort(p.dst, p.protocol, p.dstPort) {
			return false, nil
		}
	}
	isICMP := p.protocol == 1 || p.protocol == 58
	switch m := r.Icmp.(type) {
	case *felixpb.Rule_IcmpType:
		if !isICMP || p.icmpType != m.IcmpType {
			return false, nil
		}
	case *felixpb.Rule_IcmpTypeCode:
		if !isICMP || p.icmpType != m.IcmpTypeCode.Type || p.code != m.IcmpTypeCode.Code {
			return false, nil
		}
	}
	switch m := r.NotIcmp.(type) {
	case *felixpb.Rule_NotIcmpType:
		if isICMP && p.icmpType == m.NotIcmpType {
			return false, nil
		}
	case *felixpb.Rule_NotIcmpTypeCode:
		if isICMP && p.icmpType == m.NotIcmpTypeCode.Type && p.code == m.NotIcmpTypeCode.Code {
			return false, nil
		}
	}
	family := felixpb.IPVersion_IPV6
	if p.src.Is4() {
		family = felixpb.IPVersion_IPV4
	}
	return (r.IpVersion == felixpb.IPVersion_ANY || r.IpVersion == family) &&
		(r.Protocol == nil || numberOf(r.Protocol) == p.protocol) &&
		(r.NotProtocol == nil || numberOf(r.NotProtocol) != p.protocol), nil
}

func numberOf(p *felixpb.Protocol) int32 {
	if name, ok := p.NumberOrName.(*felixpb.Protocol_Name); ok {
		return protocolNumbers()[name.Name]
	}
	return p.GetNumber()
}

// side reports whether one side of a packet matches.
func (s *felixState) side(a netip.Addr, port uint16, p felixPacket, nets, notNets, sets, notSets []string,
	ports, notPorts []*felixpb.PortRange, portSets, notPortSets []string,
) (bool, error) {
	in, err := contains(nets, a)
	if err != nil || len(nets) > 0 && !in {
		return false, err
	}
	if in, err = contains(notNets, a); err != nil || in {
		return false, err
	}
	for _, id := range sets {
		if !s.sets[id].has(a) {
			return false, nil
		}
	}
	for _, id := range notSets {
		if s.sets[id].has(a) {
			return false, nil
		}
	}
	on := func(ranges []*felixpb.PortRange, ids []string) bool {
		inRange := slices.ContainsFunc(ranges, func(r *felixpb.PortRange) bool {
			return p.hasPorts() && r.First <= int32(port) && int32(port) <= r.Last
		})
		return inRange || slices.ContainsFunc(ids, func(id string) bool {
			return s.sets[id].hasPort(a, p.protocol, port)
		})
	}
	if len(ports)+len(portSets) > 0 && !on(ports, portSets) {
		return false, nil
	}
	return !on(notPorts, notPortSets), nil
}

func contains(nets []string, a netip.Addr) (bool, error) {
	found := false
	for _, text := range nets {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return false, err
		}
		found = found || p.Contains(a)
	}
	return found, nil
}

func (s felixSet) has(a netip.Addr) bool {
	for _, m := range s.members {
		if m.prefix.Contains(a) {
			return true
		}
	}
	return false
}

func (s felixSet) hasPort(a netip.Addr, protocol int32, port uint16) bool {
	for _, m := range s.members {
		if m.prefix.Contains(a) && m.protocol == protocol && m.port == port {
			return true
		}
	}
	return false
}
