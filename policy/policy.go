// SPDX-License-Identifier: Apache-2.0

package policy

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

// Tier groups policies. Tiers are looked at in order. Readers may share a Tier that nobody
// changes.
type Tier struct {
	// Name of the tier. Required.
	Name string `json:"name"`
	// Order among tiers: smaller first; nil means after every number; ties by name. The
	// three built-in tiers have fixed orders, see BuiltinTier.
	Order *float64 `json:"order,omitempty"`
	// DefaultAction is what happens to traffic of an endpoint that the tier's policies
	// select when none of their rules decides: Deny (the default) or Pass.
	DefaultAction Action `json:"defaultAction,omitempty"`
}

// The built-in tiers: they exist without a Tier resource, see BuiltinTier.
const (
	DefaultTier      = "default"
	KubeAdminTier    = "kube-admin"
	KubeBaselineTier = "kube-baseline"
)

// Profile gives labels to the endpoints that list it and holds the rules that count
// where no tier applies to an endpoint, or every tier passed. Readers may share a Profile
// that nobody changes.
type Profile struct {
	// Name of the profile. Required.
	Name string `json:"name"`
	// LabelsToApply are inherited by the endpoints that list the profile. The
	// endpoint's own label of the same name wins; among profiles, the first in the
	// endpoint's list. LabelNamespace is not allowed. Empty means none.
	LabelsToApply map[string]string `json:"labelsToApply,omitempty"`
	// Ingress rules. Pass acts as Deny here. None means that the profile leaves the direction
	// undecided.
	Ingress []Rule `json:"ingress,omitempty"`
	// Egress rules. Pass acts as Deny here. None means that the profile leaves the direction
	// undecided.
	Egress []Rule `json:"egress,omitempty"`
}
