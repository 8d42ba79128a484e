// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// Packet is the first packet of a flow, as it is forwarded.
type Packet struct {
	// Src and Dst are of one family.
	Src, Dst netip.Addr
	// Protocol of the packet; any number.
	Protocol policy.Protocol
	// SrcPort and DstPort are used only if the protocol has ports.
	SrcPort, DstPort uint16
	// ICMPType and ICMPCode are used only if the protocol is ICMP or ICMPv6.
	ICMPType, ICMPCode uint8
	// Header has the other fields of the packet's IP header.
	policy.Header
	// From is the endpoint by whose interface the packet enters: its egress policy applies. The
	// zero Key means that this interface belongs to no local workload.
	From policy.Key
	// To is the endpoint by whose interface the packet leaves: its ingress policy applies. The zero
	// Key means that this interface belongs to no local workload.
	To policy.Key
}

// Verdict is the result of policy for a packet.
type Verdict struct {
	// Egress is the decision of the endpoint that the packet comes from. Ingress is the decision of
	// the endpoint that the packet goes to.
	Egress, Ingress Decision
}

// Decision is the verdict in one direction.
type Decision struct {
	// Action is Allow or Deny, or empty without an endpoint.
	Action policy.Action
	// By is a text for people that names the policy, the profile or the reason that decided.
	By string
}

// Allowed reports whether no endpoint denies the packet.
func (v Verdict) Allowed() bool {
	return v.Egress.Action != policy.Deny && v.Ingress.Action != policy.Deny
}

// Judge returns whether the policy in the state allows a packet. It considers policy alone: it
// ignores connection tracking, and does not check whether the endpoints have the packet's
// addresses. It follows docs/semantics.md. It shares no code with the backends, so tests can
// compare them with Judge.
func (s State) Judge(p Packet) Verdict {
	p.Src, p.Dst = p.Src.Unmap(), p.Dst.Unmap()
	return Verdict{
		Egress: s.decide(p, p.From, func(e *dataplane.Endpoint) []dataplane.TierPolicies { return e.Egress },
			func(r ruleLists) []dataplane.Rule { return r.egress }),
		Ingress: s.decide(p, p.To, func(e *dataplane.Endpoint) []dataplane.TierPolicies { return e.Ingress },
			func(r ruleLists) []dataplane.Rule { return r.ingress }),
	}
}

// ruleLists are the rules of a policy or a profile.
type ruleLists struct{ ingress, egress []dataplane.Rule }

// decide evaluates one endpoint: its tiers first, then its profiles.
func (s State) decide(p Packet, key policy.Key,
	tiers func(*dataplane.Endpoint) []dataplane.TierPolicies, rules func(ruleLists) []dataplane.Rule,
) Decision {
	if key == (policy.Key{}) {
		return Decision{}
	}
	e, ok := s.Endpoints[key]
	switch {
	case !ok:
		return Decision{policy.Deny, "unknown endpoint"}
	case e.Down:
		return Decision{policy.Deny, "endpoint is down"} // S35
	case p.Src.Is4() != p.Dst.Is4():
		return Decision{policy.Deny, "addresses of two families"}
	}
	for _, t := range tiers(e) {
		if d := s.tier(p, t, rules); d.Action != policy.Pass {
			return d // S22, S23
		}
	}
	for _, name := range e.Profiles { // S30, S31
		prof, ok := s.Profiles[name]
		if !ok {
			return Decision{policy.Deny, "profile " + name + " is missing"} // S34
		}
		action, i := s.first(p, rules(ruleLists{prof.Ingress, prof.Egress}))
		switch action {
		case policy.Allow:
			return Decision{policy.Allow, fmt.Sprintf("profile %s rule %d", name, i)}
		case policy.Deny, policy.Pass: // S32
			return Decision{policy.Deny, fmt.Sprintf("profile %s rule %d", name, i)}
		}
	}
	return Decision{policy.Deny, "no profile decided"} // S25, S31, S33
}

// tier returns the decision of a tier. Pass means that the next tier decides or, after the last
// tier, the profiles.
func (s State) tier(p Packet, t dataplane.TierPolicies, rules func(ruleLists) []dataplane.Rule) Decision {
	enforced := false
	for _, k := range t.Policies {
		pol, ok := s.Policies[k]
		if !ok {
			return Decision{policy.Deny, k.String() + " is missing"}
		}
		if pol.Staged {
			continue // S20
		}
		enforced = true
		if action, i := s.first(p, rules(ruleLists{pol.Ingress, pol.Egress})); action != "" {
			return Decision{action, fmt.Sprintf("tier %s %s rule %d", t.Tier, k, i)} // S21, S24
		}
	}
	switch {
	case !enforced:
		return Decision{policy.Pass, "tier " + t.Tier + " has no enforced policy"} // S20
	case t.DefaultAction == policy.Pass:
		return Decision{policy.Pass, "end of tier " + t.Tier}
	default:
		return Decision{policy.Deny, "end of tier " + t.Tier} // S26, S27
	}
}

// first returns the action of the first rule that matches and decides, and the index of that rule.
// If no rule decides, the action is "". An action that is not known denies.
func (s State) first(p Packet, rules []dataplane.Rule) (policy.Action, int) {
	for i := range rules {
		if !s.matches(p, &rules[i]) {
			continue
		}
		switch a := rules[i].Action; a {
		case policy.Log: // S28
		case policy.Allow, policy.Pass:
			return a, i
		default:
			return policy.Deny, i
		}
	}
	return "", 0
}

// matches reports whether every criterion of the rule holds (S41, S42).
func (s State) matches(p Packet, r *dataplane.Rule) bool {
	return version(p, r.IPVersion) &&
		(r.Protocol == 0 || (p.Protocol == r.Protocol && family(p, r.Protocol))) &&
		(r.NotProtocol == 0 || p.Protocol != r.NotProtocol) && // S62
		(r.ICMP == nil || icmp(p, r.ICMP)) &&
		(r.NotICMP == nil || !icmp(p, r.NotICMP)) && // S64
		(len(r.DSCP) == 0 || slices.Contains(r.DSCP, p.DSCP)) && !slices.Contains(r.NotDSCP, p.DSCP) && // S176
		s.side(p, p.Src, p.SrcPort, &r.Source) &&
		s.side(p, p.Dst, p.DstPort, &r.Destination)
}

// version reports whether the packet is of the IP version (S67).
func version(p Packet, v int) bool {
	return v == 0 || (v == 4) == p.Src.Is4()
}

// family reports whether the protocol exists in the packet's family (S66).
func family(p Packet, proto policy.Protocol) bool {
	switch proto {
	case policy.ProtocolICMP:
		return p.Src.Is4()
	case policy.ProtocolICMPv6:
		return p.Src.Is6()
	default:
		return true
	}
}

// icmp reports whether the packet is ICMP of its family with the type and, if given, the code (S63,
// S64).
func icmp(p Packet, i *policy.ICMP) bool {
	if p.Protocol != policy.ProtocolICMP && p.Protocol != policy.ProtocolICMPv6 || !family(p, p.Protocol) {
		return false
	}
	return (i.Type == nil || *i.Type == int(p.ICMPType)) && (i.Code == nil || *i.Code == int(p.ICMPCode))
}

// side reports whether one side of the packet matches.
func (s State) side(p Packet, a netip.Addr, port uint16, m *dataplane.Match) bool {
	if len(m.Nets) > 0 && !inNets(a, m.Nets) { // S43, S68, S70
		return false
	}
	if inNets(a, m.NotNets) { // S42, S69
		return false
	}
	for _, id := range m.Sets { // S44: in every one
		if !s.inSet(a, id) {
			return false
		}
	}
	for _, id := range m.NotSets { // S44, S74: in none
		if s.inSet(a, id) {
			return false
		}
	}
	if len(m.Ports)+len(m.PortSets) > 0 && !s.onPort(p, a, port, m.Ports, m.PortSets) { // S45
		return false
	}
	return !s.onPort(p, a, port, m.NotPorts, m.NotPortSets) // S46, S48
}

func inNets(a netip.Addr, nets []netip.Prefix) bool {
	return slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) })
}

// inSet reports whether the address is in the set. A set that does not exist counts as empty.
func (s State) inSet(a netip.Addr, id dataplane.IPSetID) bool {
	return slices.ContainsFunc(s.Sets[id].Members, func(m dataplane.Member) bool { return m.Prefix.Contains(a) })
}

// onPort reports whether the port is in one of the ranges, or (address, protocol, port) in one of
// the sets (S45, S54).
func (s State) onPort(p Packet, a netip.Addr, port uint16, ranges []policy.Port, sets []dataplane.IPSetID) bool {
	if !p.Protocol.HasPorts() {
		return false
	}
	if slices.ContainsFunc(ranges, func(r policy.Port) bool { return r.First <= port && port <= r.Last }) {
		return true
	}
	return slices.ContainsFunc(sets, func(id dataplane.IPSetID) bool {
		return slices.ContainsFunc(s.Sets[id].Members, func(m dataplane.Member) bool {
			return m.Prefix.Contains(a) && m.Protocol == p.Protocol && m.Port == port
		})
	})
}
