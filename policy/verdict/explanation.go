// SPDX-License-Identifier: Apache-2.0

package verdict

import "github.com/wayleave/wayleave/policy"

// Explanation is the verdict on a flow, with all policies and rules that were evaluated. String writes it for
// people, and encoding/json for programs.
type Explanation struct {
	// Flow is the evaluated flow, with its addresses in canonical form.
	Flow Flow `json:"flow"`
	// Result is the verdict, as Evaluate returns it.
	Result Result `json:"result"`
	// Egress is the evaluation at the source endpoint. For a flow at a node it is the result of the stages
	// with egress rules: the one that denied or else the last that allowed, without its steps.
	Egress *Direction `json:"egress"`
	// Ingress is the evaluation at the destination endpoint, or the result of the stages with ingress rules.
	Ingress *Direction `json:"ingress"`
	// Stages are those of a flow at a node, in order, each with its steps. Stages without policy are left
	// out. All others are evaluated, even after one that denies. Empty without a node, and for traffic that
	// does not leave the host or a workload.
	Stages []*Direction `json:"stages,omitempty"`
}

// Stage is a place on a packet's way through a node where policy is evaluated.
type Stage string

// The stages, in the order in which a packet passes them.
const (
	// StageUntracked is the untracked policy of a host endpoint, before connection tracking. It
	// sees the destination before NAT. What it allows passes over all other policy of that host
	// endpoint.
	StageUntracked Stage = "Untracked"
	// StagePreDNAT is the pre-DNAT policy of a host endpoint, of ingress. It sees the destination
	// before NAT. What it allows passes over the host endpoint's other ingress policy.
	StagePreDNAT Stage = "PreDNAT"
	// StageWorkload is the policy of a workload endpoint, with the checks that come before it.
	StageWorkload Stage = "Workload"
	// StageEndpointToHost is HostConfig.EndpointToHostAction.
	StageEndpointToHost Stage = "EndpointToHost"
	// StageHostToEndpoint is HostConfig.HostToEndpointAction.
	StageHostToEndpoint Stage = "HostToEndpoint"
	// StageHost is the normal policy of a host endpoint, for the traffic of the host's own
	// processes.
	StageHost Stage = "Host"
	// StageForward is the apply-on-forward policy of a host endpoint, for what the node forwards.
	StageForward Stage = "Forward"
	// StageEncapsulation denies encapsulated packets to the host itself that come from no node; see
	// policy.HostConfig.NodeEncapsulations. It appears only for packets that it denies.
	StageEncapsulation Stage = "Encapsulation"
)

// Direction is the walk through the policy of one endpoint in one direction.
type Direction struct {
	// Stage is the stage of a flow at a node. Empty without a node.
	Stage Stage `json:"stage,omitempty"`
	// Type is Egress at the source, Ingress at the destination: the direction of the rules.
	Type policy.Type `json:"type"`
	// Endpoint is the workload endpoint or host endpoint whose policy applies. Zero if there is none.
	Endpoint policy.Key `json:"endpoint,omitzero"`
	// Outcome is the result of the direction.
	Outcome Outcome `json:"outcome"`
	// Decision is the cause of the outcome.
	Decision Decision `json:"decision"`
	// Tiers are those that were evaluated, in order: those with a policy for the endpoint in this direction,
	// up to the one that decided.
	Tiers []TierStep `json:"tiers,omitempty"`
	// Profiles are those that were evaluated, in order.
	Profiles []ProfileStep `json:"profiles,omitempty"`
	// IfStagedEnforced is the outcome of this direction or stage if every staged policy were enforced. Each
	// would replace the policy of the same namespace and name, if there is one. Empty if no staged policy,
	// and no policy that one would replace, applies to the endpoint here.
	IfStagedEnforced Outcome `json:"ifStagedEnforced,omitempty"`
	// IfStagedDecision is the cause of that outcome. A rule of a staged policy has the policy's key with
	// KindStagedPolicy. Zero if IfStagedEnforced is empty.
	IfStagedDecision Decision `json:"ifStagedDecision,omitzero"`
}

// Cause is the kind of a decision's cause.
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
	// ByEndOfTiers: no rule of a host endpoint's untracked or pre-DNAT policy matched, so that
	// other stages decide; or all tiers passed in its apply-on-forward policy, which allows.
	ByEndOfTiers Cause = "EndOfTiers"
	// ByNoPolicy: no policy of the stage's kind is for the host endpoint. Forwarded traffic is then
	// allowed.
	ByNoPolicy Cause = "NoPolicy"
	// ByAdminState: the endpoint is down.
	ByAdminState Cause = "AdminState"
	// ByFalseSource: the workload does not have the address that it sends from.
	ByFalseSource Cause = "FalseSource"
	// ByEncapsulation: the workload sends what policy.HostConfig.ForbiddenEncapsulations has.
	ByEncapsulation Cause = "Encapsulation"
	// ByEncapsulationSource: the packet to the node is encapsulated, and its source is no address of a
	// node; see policy.HostConfig.NodeEncapsulations.
	ByEncapsulationSource Cause = "EncapsulationSource"
	// ByEstablished: the packet belongs to a connection that was let through.
	ByEstablished Cause = "Established"
	// ByInvalidState: connection tracking calls the packet invalid.
	ByInvalidState Cause = "InvalidState"
	// ByFailsafe: a failsafe port, which Detail has, allows the packet or passes over the stage.
	ByFailsafe Cause = "Failsafe"
	// BySetting: the setting that the stage is named after decided.
	BySetting Cause = "Setting"
	// ByNoEndpoint: no endpoint is on this side, or no stage applied; nothing was decided.
	ByNoEndpoint Cause = "NoEndpoint"
	// ByInvalidFlow: the flow cannot exist, see Flow. One that cannot as an untracked policy lets
	// it through, which leaves no NAT, has the rule in the other fields.
	ByInvalidFlow Cause = "InvalidFlow"
)

// Decision names what decided a direction.
type Decision struct {
	// By is what the decision comes from; it determines which other fields are set.
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
	// Doubts of the deciding rule, which then denies everything; see policy.Rule.
	Doubts []policy.Problem `json:"doubts,omitempty"`
	// Detail is for people: the error of an invalid flow (ByInvalidFlow), the failsafe port (ByFailsafe), or
	// the name of the encapsulation (ByEncapsulationSource).
	Detail string `json:"detail,omitempty"`
}

// TierStep is the look at one tier.
type TierStep struct {
	// Name of the tier.
	Name string `json:"name"`
	// Missing means that the tier has no resource and is not built in.
	Missing bool `json:"missing,omitempty"`
	// DefaultAction of the tier: Deny or Pass.
	DefaultAction policy.Action `json:"defaultAction"`
	// Policies that select the endpoint and count for the direction, in order, as far as they were
	// looked at.
	Policies []PolicyStep `json:"policies"`
	// Action is how the tier ended: Allow, Deny or Pass. Empty where all its policies are
	// staged, so that it does not decide, and where no rule decided in untracked or pre-DNAT policy.
	Action policy.Action `json:"action,omitempty"`
	// Default means that no rule decided and Action is the tier's default.
	Default bool `json:"default,omitempty"`
}

// PolicyStep is the look at one policy.
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

// ProfileStep is the look at one profile.
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

// RuleStep is the look at one rule.
type RuleStep struct {
	// ID of the rule, see policy.RuleIDs.
	ID string `json:"id"`
	// Action of the rule.
	Action policy.Action `json:"action"`
	// Mismatch is why the rule does not match. Nil if it does.
	Mismatch *Mismatch `json:"mismatch,omitempty"`
	// Annotations of the rule.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Doubts of the rule: it denies everything or matches nothing, see policy.Rule.
	Doubts []policy.Problem `json:"doubts,omitempty"`
}

// Mismatch is the first field of a rule that does not hold for a flow.
type Mismatch struct {
	// Field is the path of the field in the rule, as in "source.selector". "source.namespace" is
	// the limit to the policy's own namespace, which is not written in the rule. Of a rule in doubt
	// it is the field in doubt, with the path that it has in the policy.
	Field string `json:"field"`
	// Reason is for people.
	Reason string `json:"reason"`
}
