// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// Unknown is a set of fields of a packet that the caller does not know. Combine fields with "|".
// The values of these fields in the packet are ignored. An unknown field never makes a rule allow a
// packet. If a rule has a condition on an unknown field, this happens:
//
//   - If its action is Allow or Log, the rule matches no packet.
//   - If its action is Deny or Pass and its other conditions match, the rule denies the packet.
type Unknown uint8

const (
	// UnknownDSCP means that the field Header.DSCP is unknown. A program that accepts a connection
	// never knows the DSCP of its first packet.
	UnknownDSCP Unknown = 1 << iota
	// UnknownICMP means that the fields ICMPType and ICMPCode are unknown.
	UnknownICMP
	// UnknownSrcPort means that the field SrcPort is unknown, for example because the connection
	// does not exist yet, or came through a proxy.
	UnknownSrcPort
)

// resolve returns the objects with rules that have no conditions on unknown fields of the packet.
// Each rule keeps its number.
func (u Unknown) resolve(s dptest.State, p dptest.Packet) dptest.State {
	policies := make(map[policy.Key]*dataplane.Policy, len(s.Policies))
	for key, old := range s.Policies {
		changed := *old
		changed.Ingress, changed.Egress = u.rules(p, old.Ingress), u.rules(p, old.Egress)
		policies[key] = &changed
	}
	profiles := make(map[string]*dataplane.Profile, len(s.Profiles))
	for name, old := range s.Profiles {
		changed := *old
		changed.Ingress, changed.Egress = u.rules(p, old.Ingress), u.rules(p, old.Egress)
		profiles[name] = &changed
	}
	s.Policies, s.Profiles = policies, profiles
	return s
}

// rules returns the list of rules without conditions on unknown fields. If no rule has such a
// condition, it returns the same list.
func (u Unknown) rules(p dptest.Packet, rules []dataplane.Rule) []dataplane.Rule {
	cloned := false
	for i := range rules {
		known := u.known(p, rules[i])
		if known.Equal(&rules[i]) {
			continue
		}
		if !cloned {
			rules, cloned = slices.Clone(rules), true
		}
		switch known.Action {
		case policy.Allow, policy.Log:
			known.Source.Nets = []netip.Prefix{{}} // a prefix that contains no address
		default:
			known.Action = policy.Deny // after Pass, another rule may allow
		}
		rules[i] = known
	}
	return rules
}

// known returns a rule without the conditions on unknown fields of the packet.
func (u Unknown) known(p dptest.Packet, r dataplane.Rule) dataplane.Rule {
	if u&UnknownDSCP != 0 {
		r.DSCP, r.NotDSCP = nil, nil
	}
	if u&UnknownICMP != 0 && (p.Protocol == policy.ProtocolICMP || p.Protocol == policy.ProtocolICMPv6) {
		r.ICMP, r.NotICMP = nil, nil
	}
	if u&UnknownSrcPort != 0 && p.Protocol.HasPorts() {
		r.Source.Ports, r.Source.NotPorts, r.Source.PortSets, r.Source.NotPortSets = nil, nil, nil, nil
	}
	return r
}
