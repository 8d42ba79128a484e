// SPDX-License-Identifier: Apache-2.0

package policy

import "slices"

// Policy selects endpoints and says what they may receive and send.
//
// A policy with a namespace selects only endpoints of that namespace. Where a policy
// selects an endpoint and none of its rules (nor those of the other policies of the
// tier) match, the tier's default action decides. Readers may share a Policy that nobody
// changes.
type Policy struct {
	// Namespace of the policy; empty for a global policy.
	Namespace string `json:"namespace,omitempty"`
	// Name is unique within kind and namespace. Required.
	Name string `json:"name"`
	// Tier the policy belongs to. Empty means DefaultTier. A tier without a Tier
	// resource sorts after all tiers that have one, by name, and ends in Deny.
	Tier string `json:"tier,omitempty"`
	// Order within the tier: smaller first, negative and fractional allowed. Nil means
	// after every number. NaN and infinity are invalid. Equal orders are tied by
	// "name/namespace/kind".
	Order *float64 `json:"order,omitempty"`
	// Selector over the endpoints' labels. Empty selects every endpoint (of the
	// namespace, where the policy has one).
	Selector string `json:"selector,omitempty"`
	// NamespaceSelector limits a global policy to endpoints of matching namespaces. Empty means no
	// limit. "all()" means any namespace, "global()" none. One that is true without a label (env !=
	// "prod") selects endpoints without a namespace too, host endpoints among them, unless "all()
	// &&" stands before it. Not allowed in a policy that has a namespace.
	NamespaceSelector string `json:"namespaceSelector,omitempty"`
	// ServiceAccountSelector limits a policy to endpoints whose service account has matching
	// labels. Empty means no limit. One that is true without a label (role != "bot") selects
	// endpoints without an account too, host endpoints among them.
	ServiceAccountSelector string `json:"serviceAccountSelector,omitempty"`
	// Types says for which directions the policy counts. Empty means: Ingress, unless
	// there are egress rules and no ingress rules (then Egress), or both (then both). See
	// AppliesTo.
	Types []Type `json:"types,omitempty"`
	// Ingress rules, looked at in order for traffic to the endpoint. None means that the policy
	// decides nothing in this direction; what no other one of the tier decides is left to the
	// tier's end.
	Ingress []Rule `json:"ingress,omitempty"`
	// Egress rules, looked at in order for traffic from the endpoint. None means that the policy
	// decides nothing in this direction; what no other one of the tier decides is left to the
	// tier's end.
	Egress []Rule `json:"egress,omitempty"`
	// Staged policies are carried and explained but never decide anything. It is the kind
	// that says it in JSON: StagedPolicy.
	Staged bool `json:"-"`
	// ApplyOnForward makes the policy count on host endpoints for forwarded traffic too. False, the
	// default, means only for that of the host's own processes. It changes nothing for workload
	// endpoints, whose traffic is always forwarded. Not allowed in a policy that has a namespace,
	// which selects no host endpoint; nor are the next two.
	ApplyOnForward bool `json:"applyOnForward,omitempty"`
	// DoNotTrack policies decide on host endpoints before connection tracking, each packet
	// and each direction by itself; they never count on workload endpoints. They need
	// ApplyOnForward and exclude PreDNAT. False, the default, means a policy for new connections.
	DoNotTrack bool `json:"doNotTrack,omitempty"`
	// PreDNAT policies decide on host endpoints before destination NAT, and never count on
	// workload endpoints. They are for ingress alone: egress rules and the type Egress are invalid.
	// They need ApplyOnForward and exclude DoNotTrack. False, the default, means that
	// rules see the destination after destination NAT.
	PreDNAT bool `json:"preDNAT,omitempty"`
	// PerformanceHints change how the policy is computed, never what it means. Empty means none.
	PerformanceHints []PerformanceHint `json:"performanceHints,omitempty"`
}

// Type is a direction that a policy applies to, seen from the endpoint. Type is a plain
// value; it is safe for concurrent use.
type Type string

// The policy types. They are compared without regard to case when read.
const (
	Ingress Type = "Ingress"
	Egress  Type = "Egress"
)

// PerformanceHint is a hint on how a policy is going to be used. It is a plain value and
// safe for concurrent use.
type PerformanceHint string

// AssumeNeededOnEveryNode keeps the policy programmed although no endpoint of this
// node matches it, so that the first one that does needs to wait for less.
const AssumeNeededOnEveryNode PerformanceHint = "AssumeNeededOnEveryNode"

// Key returns the policy's identity; its kind says whether it is staged.
func (p *Policy) Key() Key {
	kind := KindPolicy
	if p.Staged {
		kind = KindStagedPolicy
	}
	return Key{Kind: kind, Namespace: p.Namespace, Name: p.Name}
}

// Validate reports every problem of the policy as one *ValidationError, or nil. Update.Admit
// decides which of them make it absent. A closed rule is no problem: see Doubts.
func (p *Policy) Validate() error {
	v := &validator{}
	v.policyScope(p)
	v.rules("ingress", p.Ingress, ruleScope{Ingress, p.Namespace})
	v.rules("egress", p.Egress, ruleScope{Egress, p.Namespace})
	v.hints(p.PerformanceHints)
	return v.err(p.Key())
}

func (p *Policy) equal(other Resource) bool {
	o, ok := other.(*Policy)
	return ok && p.Namespace == o.Namespace && p.Name == o.Name && p.Tier == o.Tier &&
		equalPointers(p.Order, o.Order) &&
		p.Selector == o.Selector &&
		p.NamespaceSelector == o.NamespaceSelector &&
		p.ServiceAccountSelector == o.ServiceAccountSelector &&
		slices.Equal(p.Types, o.Types) &&
		equalRules(p.Ingress, o.Ingress) && equalRules(p.Egress, o.Egress) &&
		p.Staged == o.Staged && p.ApplyOnForward == o.ApplyOnForward &&
		p.DoNotTrack == o.DoNotTrack && p.PreDNAT == o.PreDNAT &&
		slices.Equal(p.PerformanceHints, o.PerformanceHints)
}

// policyScope checks the fields outside of the rules: with an error there, the policy cannot be in
// force.
func (v *validator) policyScope(p *Policy) {
	v.namespace(p.Namespace)
	v.name("name", p.Name)
	if p.Tier != "" {
		v.name("tier", p.Tier)
	}
	v.order(p.Order)
	v.selector("selector", p.Selector)
	v.prefixedSelector("namespaceSelector", p.NamespaceSelector, NamespaceLabelPrefix)
	if p.Namespace != "" && p.NamespaceSelector != "" {
		v.add("namespaceSelector", "not allowed in a policy that has a namespace")
	}
	v.prefixedSelector("serviceAccountSelector", p.ServiceAccountSelector, ServiceAccountLabelPrefix)
	v.types(p.Types, p.PreDNAT)
	if p.PreDNAT && len(p.Egress) > 0 {
		v.add("egress", "a preDNAT policy has no egress rules")
	}
	v.hostPolicy(p)
}

// hints checks performance hints, which change no verdict.
func (v *validator) hints(hints []PerformanceHint) {
	for i, h := range hints {
		if h != AssumeNeededOnEveryNode {
			v.add(index("performanceHints", i), "unknown hint %q", clip(string(h)))
		}
	}
}

// hostPolicy checks what a policy says of host endpoints, which have no namespace.
func (v *validator) hostPolicy(p *Policy) {
	for _, f := range []struct {
		name string
		set  bool
	}{{"applyOnForward", p.ApplyOnForward}, {"doNotTrack", p.DoNotTrack}, {"preDNAT", p.PreDNAT}} {
		if f.set && p.Namespace != "" {
			v.add(f.name, "not allowed in a policy that has a namespace, which selects no host endpoint")
		}
		if f.set && !p.ApplyOnForward {
			v.add(f.name, "needs applyOnForward")
		}
	}
	if p.PreDNAT && p.DoNotTrack {
		v.add("preDNAT", "excludes doNotTrack")
	}
}

func (v *validator) types(types []Type, preDNAT bool) {
	for i, t := range types {
		before := types[:i]
		t = t.canonical()
		switch {
		case t != Ingress && t != Egress:
			v.add(index("types", i), "want Ingress or Egress, not %q", clip(string(t)))
		case slices.ContainsFunc(before, func(b Type) bool { return b.canonical() == t }):
			v.add(index("types", i), "%s is given twice", t)
		case t == Egress && preDNAT:
			v.add(index("types", i), "a preDNAT policy is for Ingress alone")
		}
	}
}

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

// canonical returns the type in its usual case, or as it is where it is unknown.
func (t Type) canonical() Type {
	for _, known := range []Type{Ingress, Egress} {
		if sameLetters(string(t), string(known)) {
			return known
		}
	}
	return t
}
