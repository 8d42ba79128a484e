// SPDX-License-Identifier: Apache-2.0

package policy

import "slices"

// Policy selects endpoints and has rules for their traffic.
//
// A policy with a namespace selects only endpoints of that namespace. A tier applies to an endpoint
// if one of its policies selects the endpoint. If no rule of these policies decides, the tier's
// default action decides.
type Policy struct {
	// Namespace of the policy; empty for a global policy.
	Namespace string `json:"namespace,omitempty"`
	// Name is unique within kind and namespace. Required.
	Name string `json:"name"`
	// Tier to which the policy belongs. Empty means DefaultTier. Tiers without a Tier resource come
	// after all others, sorted by name. Their default action is Deny.
	Tier string `json:"tier,omitempty"`
	// Order within the tier: smaller first; negative numbers and fractions are valid. Nil comes
	// after all numbers. NaN and infinity are invalid. Policies with equal orders are sorted by
	// "name/namespace/kind".
	Order *float64 `json:"order,omitempty"`
	// Selector on the endpoints' labels. Empty matches every endpoint. A policy with a namespace
	// selects only endpoints of this namespace.
	Selector string `json:"selector,omitempty"`
	// NamespaceSelector limits a global policy to endpoints of matching namespaces. Empty means no
	// limit. "all()" selects endpoints of all namespaces, and "global()" selects endpoints without
	// a namespace. Any other NamespaceSelector that is true for an object without labels (env !=
	// "prod") also selects endpoints without a namespace, such as host endpoints. To exclude these
	// endpoints, write "all() &&" before the selector. NamespaceSelector is not allowed in a policy
	// with a namespace.
	NamespaceSelector string `json:"namespaceSelector,omitempty"`
	// ServiceAccountSelector limits a policy to endpoints whose service account has matching
	// labels. Empty means no limit. A selector that is true for an object without labels (role !=
	// "bot") also selects endpoints without an account, such as host endpoints.
	ServiceAccountSelector string `json:"serviceAccountSelector,omitempty"`
	// Types are the directions to which the policy applies. If there are none, the directions
	// follow from the rules: Egress if there are only egress rules, both directions if there are
	// rules of both, and Ingress otherwise. See AppliesTo.
	Types []Type `json:"types,omitempty"`
	// Ingress are the rules for traffic to the endpoint, evaluated in order. If no rule of the
	// tier's policies decides, the tier's default action does. This also holds if the policy
	// applies to Ingress and has no rules.
	Ingress []Rule `json:"ingress,omitempty"`
	// Egress are the rules for traffic from the endpoint. They are evaluated in the same way as
	// Ingress.
	Egress []Rule `json:"egress,omitempty"`
	// Staged means that the policy is not enforced. Explanations show what it would decide. JSON
	// has no such member: there, a staged policy has the kind StagedPolicy.
	Staged bool `json:"-"`
	// ApplyOnForward means that the policy also applies to forwarded traffic of host endpoints. By
	// default, it applies only to traffic of the host's own processes. The field has no effect on
	// workload endpoints, whose traffic is always forwarded. A policy with a namespace selects no
	// host endpoint. So ApplyOnForward, DoNotTrack and PreDNAT are not allowed in such a policy.
	ApplyOnForward bool `json:"applyOnForward,omitempty"`
	// DoNotTrack means that the policy applies to host endpoints before connection tracking, to
	// each packet of each direction. It then never applies to workload endpoints. DoNotTrack needs
	// ApplyOnForward and excludes PreDNAT. Without DoNotTrack, a policy applies to the first packet
	// of each connection.
	DoNotTrack bool `json:"doNotTrack,omitempty"`
	// PreDNAT means that the policy applies to host endpoints before destination NAT, and never to
	// workload endpoints. It is then for ingress only: egress rules and the type Egress are
	// invalid. PreDNAT needs ApplyOnForward and excludes DoNotTrack. If neither PreDNAT nor
	// DoNotTrack is set, rules match the destination after destination NAT.
	PreDNAT bool `json:"preDNAT,omitempty"`
	// PerformanceHints change how the policy is computed, but not its meaning. Empty means none.
	PerformanceHints []PerformanceHint `json:"performanceHints,omitempty"`
}

// Type is a direction to which a policy applies, as seen from the endpoint.
type Type string

// The policy types. Decoding is not case-sensitive.
const (
	Ingress Type = "Ingress"
	Egress  Type = "Egress"
)

// PerformanceHint is a hint about the use of a policy.
type PerformanceHint string

// AssumeNeededOnEveryNode means that a node has the policy in the kernel even while it selects no
// endpoint of the node. The first endpoint that the policy selects is then programmed faster.
const AssumeNeededOnEveryNode PerformanceHint = "AssumeNeededOnEveryNode"

// Key returns the policy's key. Its kind depends on Staged.
func (p *Policy) Key() Key {
	kind := KindPolicy
	if p.Staged {
		kind = KindStagedPolicy
	}
	return Key{Kind: kind, Namespace: p.Namespace, Name: p.Name}
}

func (*Policy) resource() {}

// Validate reports all problems of the policy as one *ValidationError, or nil. Even with some of
// these problems, the policy is enforced: see Update.Admit. Validate does not report closed rules.
// A rule is closed if Rule.Close was called for it, because of invalid or unknown fields.
// Policy.Doubts returns these fields.
func (p *Policy) Validate() error {
	v := &validator{}
	v.policyScope(p)
	v.rules("ingress", p.Ingress, ruleScope{Ingress, p.Namespace})
	v.rules("egress", p.Egress, ruleScope{Egress, p.Namespace})
	v.hints(p.PerformanceHints)
	return v.err(p.Key())
}

// policyScope checks the fields outside of the rules. With an error there, the policy is absent.
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
		v.add("namespaceSelector", "not allowed in a policy with a namespace")
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

// hostPolicy checks the fields that concern host endpoints. These have no namespace.
func (v *validator) hostPolicy(p *Policy) {
	for _, f := range []struct {
		name string
		set  bool
	}{{"applyOnForward", p.ApplyOnForward}, {"doNotTrack", p.DoNotTrack}, {"preDNAT", p.PreDNAT}} {
		if f.set && p.Namespace != "" {
			v.add(f.name, "not allowed in a policy with a namespace: it selects no host endpoints")
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
			v.add(index("types", i), "a preDNAT policy applies to Ingress only")
		}
	}
}

// AppliesTo reports whether the policy applies to the direction. If Types is not empty, the policy
// applies to the directions in Types. Upper and lower case make no difference. If Types is empty,
// the policy applies to the directions for which it has rules, and to Ingress if it has no rules.
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

// TierName returns the name of the policy's tier. The default is DefaultTier.
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

// canonical returns the type in its usual case, or unchanged if it is unknown.
func (t Type) canonical() Type {
	for _, known := range []Type{Ingress, Egress} {
		if sameLetters(string(t), string(known)) {
			return known
		}
	}
	return t
}
