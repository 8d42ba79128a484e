// SPDX-License-Identifier: Apache-2.0

package verdict

import "github.com/wayleave/wayleave/policy"

// Explanation is the verdict on a flow with everything that was looked at on the way. String
// writes it for people; encoding/json for programs. It is a plain value: safe to read from
// many goroutines while none changes it.
type Explanation struct {
	// Flow that was judged, with its addresses in canonical form.
	Flow Flow `json:"flow"`
	// Result is the verdict, the same that Evaluate gives.
	Result Result `json:"result"`
	// Egress is what happened at the source endpoint.
	Egress *Direction `json:"egress"`
	// Ingress is what happened at the destination endpoint.
	Ingress *Direction `json:"ingress"`
}

// Direction is the walk through the policy of one endpoint in one direction. It is a plain value.
type Direction struct {
	// Type is Egress at the source, Ingress at the destination.
	Type policy.Type `json:"type"`
	// Endpoint is the workload endpoint whose policy counts. Zero: there is none.
	Endpoint policy.Key `json:"endpoint,omitzero"`
	// Outcome of the direction.
	Outcome Outcome `json:"outcome"`
	// Decision is what made the outcome.
	Decision Decision `json:"decision"`
	// Tiers that were looked at, in order: those with a policy for the endpoint in this
	// direction, up to the one that decided.
	Tiers []TierStep `json:"tiers,omitempty"`
	// Profiles that were looked at, in order.
	Profiles []ProfileStep `json:"profiles,omitempty"`
	// IfStagedEnforced is what the outcome would be if every staged policy were enforced, in
	// the place of the policy of the same namespace and name where there is one. Empty in a
	// world without staged policies.
	IfStagedEnforced Outcome `json:"ifStagedEnforced,omitempty"`
}

// Cause says what kind of thing made a decision. It is a plain value.
type Cause string

// The causes.
const (
	// ByRule: a rule of a policy, or of a profile, matched.
	ByRule Cause = "Rule"
	// ByEndOfTier: policies of the tier select the endpoint, none of their rules decided, and
	// the tier's default action is Deny.
	ByEndOfTier Cause = "EndOfTier"
	// ByMissingProfile: the endpoint lists a profile that does not exist, which denies.
	ByMissingProfile Cause = "MissingProfile"
	// ByEndOfProfiles: no rule of the endpoint's profiles matched, or it has no profile.
	ByEndOfProfiles Cause = "EndOfProfiles"
	// ByAdminState: the endpoint is down.
	ByAdminState Cause = "AdminState"
	// ByNoEndpoint: no endpoint is on this side; nothing was decided.
	ByNoEndpoint Cause = "NoEndpoint"
	// ByInvalidFlow: the flow cannot exist, see Flow.Validate.
	ByInvalidFlow Cause = "InvalidFlow"
)

// Decision names what decided a direction. It is a plain value.
type Decision struct {
	// By says what the decision comes from; it tells which of the other fields are set.
	By Cause `json:"by"`
	// Tier that decided.
	Tier string `json:"tier,omitempty"`
	// Policy that the deciding rule is in.
	Policy policy.Key `json:"policy,omitzero"`
	// Profile that decided.
	Profile string `json:"profile,omitempty"`
	// RuleID of the deciding rule, see policy.RuleIDs.
	RuleID string `json:"ruleID,omitempty"`
	// Annotations of the deciding rule.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Detail is what is wrong with an invalid flow.
	Detail string `json:"detail,omitempty"`
}

// TierStep is the look at one tier. It is a plain value.
type TierStep struct {
	// Name of the tier.
	Name string `json:"name"`
	// Missing means that the tier has no resource and is not built in.
	Missing bool `json:"missing,omitempty"`
	// DefaultAction of the tier: Deny or Pass.
	DefaultAction policy.Action `json:"defaultAction"`
	// Policies that select the endpoint and count for the direction, in order, as far as they were looked at.
	Policies []PolicyStep `json:"policies"`
	// Action is how the tier ended: Allow, Deny or Pass. Empty where all its policies are
	// staged, so that it has no say.
	Action policy.Action `json:"action,omitempty"`
	// Default means that no rule decided and Action is the tier's default.
	Default bool `json:"default,omitempty"`
}

// PolicyStep is the look at one policy. It is a plain value.
type PolicyStep struct {
	// Policy is the key of the policy.
	Policy policy.Key `json:"policy"`
	// Staged policies do not count: Action is what it would have been.
	Staged bool `json:"staged,omitempty"`
	// Rules in order, up to the one that decided.
	Rules []RuleStep `json:"rules,omitempty"`
	// Action of the rule that decided. Empty if none did.
	Action policy.Action `json:"action,omitempty"`
}

// ProfileStep is the look at one profile. It is a plain value.
type ProfileStep struct {
	// Profile is the name of the profile.
	Profile string `json:"profile"`
	// Missing means that there is no such profile. It denies.
	Missing bool `json:"missing,omitempty"`
	// Rules in order, up to the one that decided.
	Rules []RuleStep `json:"rules,omitempty"`
	// Action of the rule that decided. Empty if none did. Pass acts as Deny.
	Action policy.Action `json:"action,omitempty"`
}

// RuleStep is the look at one rule. It is a plain value.
type RuleStep struct {
	// ID of the rule, see policy.RuleIDs.
	ID string `json:"id"`
	// Action of the rule.
	Action policy.Action `json:"action"`
	// Mismatch says why the rule does not match. Nil if it does.
	Mismatch *Mismatch `json:"mismatch,omitempty"`
	// Annotations of the rule.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Mismatch is the first field of a rule that does not hold for a flow. It is a plain value.
type Mismatch struct {
	// Field is the path of the field in the rule, as in "source.selector". "source.namespace" is the
	// limit to the policy's own namespace, which is not written in the rule.
	Field string `json:"field"`
	// Reason is for people.
	Reason string `json:"reason"`
}
