// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// Compare orders members by address (IPv4 first), prefix length, protocol and port.
func (m Member) Compare(o Member) int {
	return cmp.Or(
		m.Prefix.Addr().Compare(o.Prefix.Addr()),
		cmp.Compare(m.Prefix.Bits(), o.Prefix.Bits()),
		cmp.Compare(m.Protocol, o.Protocol),
		cmp.Compare(m.Port, o.Port),
	)
}

// Equal reports whether the two policies are the same, IDs of rules included. A nil
// policy equals only nil.
func (p *Policy) Equal(o *Policy) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.Tier == o.Tier && p.Staged == o.Staged &&
		equalRules(p.Ingress, o.Ingress) && equalRules(p.Egress, o.Egress)
}

// Equal reports whether the two profiles are the same, IDs of rules included. A nil
// profile equals only nil.
func (p *Profile) Equal(o *Profile) bool {
	if p == nil || o == nil {
		return p == o
	}
	return equalRules(p.Ingress, o.Ingress) && equalRules(p.Egress, o.Egress)
}

// Equal reports whether the two rules are the same, ID included. Lists are compared in order; nil and
// empty are the same.
func (r *Rule) Equal(o *Rule) bool {
	return r.ID == o.ID && r.Action == o.Action && r.IPVersion == o.IPVersion &&
		r.Protocol == o.Protocol && r.NotProtocol == o.NotProtocol &&
		equalICMP(r.ICMP, o.ICMP) && equalICMP(r.NotICMP, o.NotICMP) &&
		r.Source.Equal(&o.Source) && r.Destination.Equal(&o.Destination)
}

// Equal reports whether the two sides match the same. Lists are compared in order; nil and
// empty are the same.
func (m *Match) Equal(o *Match) bool {
	return slices.Equal(m.Nets, o.Nets) && slices.Equal(m.NotNets, o.NotNets) &&
		slices.Equal(m.Sets, o.Sets) && slices.Equal(m.NotSets, o.NotSets) &&
		slices.Equal(m.Ports, o.Ports) && slices.Equal(m.PortSets, o.PortSets) &&
		slices.Equal(m.NotPorts, o.NotPorts) && slices.Equal(m.NotPortSets, o.NotPortSets)
}

// Equal reports whether the two endpoints are the same. A nil endpoint equals only nil.
func (e *Endpoint) Equal(o *Endpoint) bool {
	if e == nil || o == nil {
		return e == o
	}
	return e.Interface == o.Interface && e.MAC == o.MAC && e.Down == o.Down &&
		slices.Equal(e.Addresses, o.Addresses) && slices.Equal(e.Profiles, o.Profiles) &&
		slices.EqualFunc(e.Ingress, o.Ingress, TierPolicies.Equal) &&
		slices.EqualFunc(e.Egress, o.Egress, TierPolicies.Equal)
}

// Equal reports whether the two tiers have the same name, default action and policies in the same order.
func (t TierPolicies) Equal(o TierPolicies) bool {
	return t.Tier == o.Tier && t.DefaultAction == o.DefaultAction && slices.Equal(t.Policies, o.Policies)
}

func equalRules(a, b []Rule) bool {
	return slices.EqualFunc(a, b, func(x, y Rule) bool { return x.Equal(&y) })
}

func equalICMP(a, b *policy.ICMP) bool {
	if a == nil || b == nil {
		return a == b
	}
	return equalInt(a.Type, b.Type) && equalInt(a.Code, b.Code)
}

func equalInt(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
