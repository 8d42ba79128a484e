// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"slices"
)

// Compare orders members by address (IPv4 first), prefix length, protocol and port.
func (m Member) Compare(o Member) int {
	if c := m.Prefix.Addr().Compare(o.Prefix.Addr()); c != 0 {
		return c
	}
	if c := cmp.Compare(m.Prefix.Bits(), o.Prefix.Bits()); c != 0 {
		return c
	}
	if c := cmp.Compare(m.Protocol, o.Protocol); c != 0 {
		return c
	}
	return cmp.Compare(m.Port, o.Port)
}

// Equal reports whether the two policies are the same, including the IDs of their rules. A nil
// policy equals only nil.
func (p *Policy) Equal(o *Policy) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.Tier == o.Tier && p.Staged == o.Staged &&
		p.Forward == o.Forward && p.Untracked == o.Untracked && p.PreDNAT == o.PreDNAT &&
		equalRules(p.Ingress, o.Ingress) && equalRules(p.Egress, o.Egress)
}

// Equal reports whether the two profiles are the same, including the IDs of their rules. A nil
// profile equals only nil.
func (p *Profile) Equal(o *Profile) bool {
	if p == nil || o == nil {
		return p == o
	}
	return equalRules(p.Ingress, o.Ingress) && equalRules(p.Egress, o.Egress)
}

// Equal reports whether the two endpoints are the same. A nil endpoint equals only nil.
func (e *Endpoint) Equal(o *Endpoint) bool {
	if e == nil || o == nil {
		return e == o
	}
	return e.Interface == o.Interface && e.MAC == o.MAC && e.Down == o.Down &&
		slices.Equal(e.Addresses, o.Addresses) && slices.Equal(e.Profiles, o.Profiles) &&
		slices.Equal(e.NATs, o.NATs) && slices.Equal(e.AllowedSources, o.AllowedSources) &&
		equalTiers(e.Ingress, o.Ingress) && equalTiers(e.Egress, o.Egress)
}

// Equal reports whether the two host endpoints are the same. A nil HostEndpoint equals only nil.
func (h *HostEndpoint) Equal(o *HostEndpoint) bool {
	if h == nil || o == nil {
		return h == o
	}
	return h.Interface == o.Interface &&
		slices.Equal(h.Addresses, o.Addresses) && slices.Equal(h.Profiles, o.Profiles) &&
		equalTiers(h.Ingress, o.Ingress) && equalTiers(h.Egress, o.Egress) &&
		equalTiers(h.ForwardIngress, o.ForwardIngress) && equalTiers(h.ForwardEgress, o.ForwardEgress) &&
		equalTiers(h.UntrackedIngress, o.UntrackedIngress) && equalTiers(h.UntrackedEgress, o.UntrackedEgress) &&
		equalTiers(h.PreDNATIngress, o.PreDNATIngress)
}

// equalValues compares two values. nil equals only nil.
func equalValues[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// equalTiers reports whether two lists are equal. Endpoints often share a list; then it compares no
// elements.
func equalTiers(a, b []TierPolicies) bool {
	return same(a, b) || slices.EqualFunc(a, b, TierPolicies.Equal)
}

// same reports whether the two slices are the same memory.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Equal reports whether the two tiers have the same name, default action and policies in the same
// order.
func (t TierPolicies) Equal(o TierPolicies) bool {
	return t.Tier == o.Tier && t.DefaultAction == o.DefaultAction &&
		(same(t.Policies, o.Policies) || slices.Equal(t.Policies, o.Policies))
}
