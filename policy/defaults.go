// SPDX-License-Identifier: Apache-2.0

package policy

import "slices"

// AppliesTo reports whether the policy counts for the direction. Types decide where
// they are given, without regard to case. Otherwise the policy counts for Ingress, unless
// it has egress rules and no ingress rules (then for Egress), or both (then for both).
// This is the only place where types are defaulted.
func (p *Policy) AppliesTo(t Type) bool {
	t = t.canonical()
	if len(p.Types) > 0 {
		return slices.ContainsFunc(p.Types, func(have Type) bool { return have.canonical() == t })
	}
	switch t {
	case Ingress:
		return len(p.Ingress) > 0 || len(p.Egress) == 0
	case Egress:
		return len(p.Egress) > 0
	}
	return false
}

// TierName returns the name of the policy's tier: DefaultTier where it gives none.
func (p *Policy) TierName() string {
	if p.Tier == "" {
		return DefaultTier
	}
	return p.Tier
}

// NeededOnEveryNode reports whether the policy has the hint AssumeNeededOnEveryNode.
func (p *Policy) NeededOnEveryNode() bool {
	return slices.Contains(p.PerformanceHints, AssumeNeededOnEveryNode)
}

// Action returns what happens to traffic that the tier's policies leave undecided: Pass
// where DefaultAction says so, Deny in every other case. A nil tier, one
// without a resource, denies too.
func (t *Tier) Action() Action {
	if t != nil && t.DefaultAction == Pass {
		return Pass
	}
	return Deny
}

// Encapsulates reports whether any traffic is encapsulated: not where the mode is Never, which is
// what an empty one means, and not where it is one that does not exist.
func (m EncapMode) Encapsulates() bool { return m == EncapAlways || m == EncapCrossSubnet }

// In returns the service with its namespace: its own, or else that of the policy, which
// is empty for a global policy or a profile (and the rule then invalid).
func (s ServiceMatch) In(namespace string) ServiceMatch {
	if s.Namespace == "" {
		s.Namespace = namespace
	}
	return s
}

// BuiltinTier returns a tier that exists without a resource: KubeAdminTier (order 1,000,
// Pass), DefaultTier (order 1,000,000, Deny) and KubeBaselineTier (order 10,000,000,
// Pass). A Tier resource of such a name must have the same order and default action. The
// result is the caller's to change. It returns false for any other name.
func BuiltinTier(name string) (*Tier, bool) {
	order, action := 0.0, Pass
	switch name {
	case KubeAdminTier:
		order = 1_000
	case DefaultTier:
		order, action = 1_000_000, Deny
	case KubeBaselineTier:
		order = 10_000_000
	default:
		return nil, false
	}
	return &Tier{Name: name, Order: &order, DefaultAction: action}, true
}
