// SPDX-License-Identifier: Apache-2.0

package verdict

import "github.com/wayleave/wayleave/policy"

// Explanation is the verdict of a flow, with all policies and rules that were evaluated. String
// returns a text for people, and encoding/json encodes an Explanation for programs.
type Explanation struct {
	// Flow is the evaluated flow, with its addresses in canonical form.
	Flow Flow `json:"flow"`
	// Result is the verdict, as Evaluate returns it.
	Result Result `json:"result"`
	// Egress is the evaluation at the source endpoint. For a flow through a node, Egress has the
	// outcome and decision of one of the Stages with the Type Egress. This is the first stage that
	// denies the flow. If none denies it, this is the last stage that allows it. If none decides,
	// the outcome is NotApplicable. The steps are only in Stages.
	Egress *Direction `json:"egress"`
	// Ingress is the evaluation at the destination endpoint. For a flow through a node, Ingress has
	// the outcome and decision of one of the Stages with the Type Ingress. This stage is chosen as
	// for Egress. The steps are only in Stages.
	Ingress *Direction `json:"ingress"`
	// Stages are the stages of a flow through a node, in order, each with its steps. A stage
	// without policy is left out. If a stage denies the flow, the later stages are evaluated, too.
	// The list is empty if the flow has no Node or cannot exist. It is also empty for traffic
	// within the host, and for traffic within one workload without destination NAT.
	Stages []*Direction `json:"stages,omitempty"`
}

// Stage is a place on a packet's way through a node where policy is evaluated.
type Stage string

// The stages, in the order in which a packet passes them.
const (
	// StageUntracked is the untracked policy of a host endpoint, before connection tracking. It
	// sees the destination before NAT. A packet that it allows skips all other policy of that host
	// endpoint.
	StageUntracked Stage = "Untracked"
	// StagePreDNAT is the pre-DNAT policy of a host endpoint, for ingress. It sees the destination
	// before NAT. A packet that it allows skips the other ingress policy of the host endpoint.
	StagePreDNAT Stage = "PreDNAT"
	// StageWorkload is the policy of a workload endpoint. It includes the checks that come before
	// this policy.
	StageWorkload Stage = "Workload"
	// StageEndpointToHost is HostConfig.EndpointToHostAction.
	StageEndpointToHost Stage = "EndpointToHost"
	// StageHostToEndpoint is HostConfig.HostToEndpointAction.
	StageHostToEndpoint Stage = "HostToEndpoint"
	// StageHost is the normal policy of a host endpoint, for traffic of the host's own processes.
	StageHost Stage = "Host"
	// StageForward is the apply-on-forward policy of a host endpoint, for forwarded traffic.
	StageForward Stage = "Forward"
	// StageEncapsulation is the check of encapsulated packets to the host itself: the source must
	// be an address of a node. See policy.HostConfig.NodeEncapsulations. The stage appears only for
	// packets that it denies.
	StageEncapsulation Stage = "Encapsulation"
)

// Direction is the evaluation of one endpoint's policy in one direction.
type Direction struct {
	// Stage is the stage of a flow at a node. Empty without a node.
	Stage Stage `json:"stage,omitempty"`
	// Type is the direction of the rules: Egress at the source, Ingress at the destination.
	Type policy.Type `json:"type"`
	// Endpoint is the workload endpoint or host endpoint whose policy applies. Zero if there is
	// none.
	Endpoint policy.Key `json:"endpoint,omitzero"`
	// Outcome is the result of the direction.
	Outcome Outcome `json:"outcome"`
	// Decision is the cause of the outcome.
	Decision Decision `json:"decision"`
	// Tiers are the tiers with a policy for the endpoint in this direction, in order, up to the
	// tier that decided.
	Tiers []TierStep `json:"tiers,omitempty"`
	// Profiles are the profiles that were evaluated, in order.
	Profiles []ProfileStep `json:"profiles,omitempty"`
	// IfStagedEnforced is the outcome that this direction or stage would have if every staged
	// policy were enforced. A staged policy then replaces the policy with the same namespace and
	// name, if there is one. IfStagedEnforced is empty if no staged policy selects the endpoint in
	// this direction or stage, and none replaces a policy that does.
	IfStagedEnforced Outcome `json:"ifStagedEnforced,omitempty"`
	// IfStagedDecision is the cause of the outcome in IfStagedEnforced. If a rule of a staged
	// policy decides, the field Policy has the key of this policy, with KindStagedPolicy.
	// IfStagedDecision is zero if IfStagedEnforced is empty.
	IfStagedDecision Decision `json:"ifStagedDecision,omitzero"`
}

// Cause is the kind of a decision's cause.
type Cause string

// The causes.
const (
	// ByRule: a rule of a policy or profile matched.
	ByRule Cause = "Rule"
	// ByEndOfTier: policies of the tier select the endpoint, none of their rules decided, and the
	// tier's default action is Deny.
	ByEndOfTier Cause = "EndOfTier"
	// ByMissingProfile: the endpoint lists a profile that does not exist. The packet is denied.
	ByMissingProfile Cause = "MissingProfile"
	// ByEndOfProfiles: no rule of the endpoint's profiles matched, or it has no profile.
	ByEndOfProfiles Cause = "EndOfProfiles"
	// ByEndOfTiers: no tier of the host endpoint decided. After untracked or pre-DNAT policy, later
	// stages decide. After apply-on-forward policy, the packet is allowed.
	ByEndOfTiers Cause = "EndOfTiers"
	// ByNoPolicy: no policy of the stage's kind selects the host endpoint.
	ByNoPolicy Cause = "NoPolicy"
	// ByAdminState: the endpoint is down.
	ByAdminState Cause = "AdminState"
	// ByFalseSource: the source address is not one that the workload may send from.
	ByFalseSource Cause = "FalseSource"
	// ByEncapsulation: the packet from the workload has one of
	// policy.HostConfig.ForbiddenEncapsulations.
	ByEncapsulation Cause = "Encapsulation"
	// ByEncapsulationSource: the packet to the node is encapsulated, and its source is not an
	// address of a node; see policy.HostConfig.NodeEncapsulations.
	ByEncapsulationSource Cause = "EncapsulationSource"
	// ByEstablished: the packet belongs to a connection that was allowed before.
	ByEstablished Cause = "Established"
	// ByInvalidState: connection tracking considers the packet invalid.
	ByInvalidState Cause = "InvalidState"
	// ByFailsafe: the port is a failsafe port. Detail has this port. The packet is allowed, or the
	// stage does not apply to it.
	ByFailsafe Cause = "Failsafe"
	// BySetting: the setting EndpointToHostAction or HostToEndpointAction of policy.HostConfig
	// decided.
	BySetting Cause = "Setting"
	// ByNoEndpoint: there is no endpoint on this side, or no stage applied.
	ByNoEndpoint Cause = "NoEndpoint"
	// ByInvalidFlow: the flow cannot exist, see Flow. For example, untracked policy allows the
	// packet, but OrigDst differs from Dst: NAT does not translate such packets. In this example,
	// the Decision also has the rule that allows the packet.
	ByInvalidFlow Cause = "InvalidFlow"
)

// Decision is the cause of an outcome.
type Decision struct {
	// By is the kind of the cause. It determines which other fields are set.
	By Cause `json:"by"`
	// Tier that decided.
	Tier string `json:"tier,omitempty"`
	// Policy of the deciding rule.
	Policy policy.Key `json:"policy,omitzero"`
	// Profile that decided.
	Profile string `json:"profile,omitempty"`
	// RuleID of the deciding rule, see policy.RuleIDs.
	RuleID string `json:"ruleID,omitempty"`
	// Annotations of the deciding rule.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Doubts are the reasons why the deciding rule is closed. It then denies everything (see
	// policy.Rule.Close). Empty if the rule is not closed.
	Doubts []policy.Problem `json:"doubts,omitempty"`
	// Detail is a text for people: the error of an invalid flow (ByInvalidFlow), the failsafe port
	// (ByFailsafe), or the name of the encapsulation (ByEncapsulationSource).
	Detail string `json:"detail,omitempty"`
}

// TierStep is the evaluation of one tier.
type TierStep struct {
	// Name of the tier.
	Name string `json:"name"`
	// Missing means that the tier has no resource and is not built in.
	Missing bool `json:"missing,omitempty"`
	// DefaultAction of the tier: Deny or Pass.
	DefaultAction policy.Action `json:"defaultAction"`
	// Policies are the policies that select the endpoint and apply to the direction, in order, up
	// to the one that decided.
	Policies []PolicyStep `json:"policies"`
	// Action is the result of the tier: Allow, Deny or Pass. It is empty if the tier does not
	// decide: all its policies are staged, or no rule of untracked or pre-DNAT policy decided.
	Action policy.Action `json:"action,omitempty"`
	// Default means that no rule decided and Action is the tier's default.
	Default bool `json:"default,omitempty"`
}

// PolicyStep is the evaluation of one policy.
type PolicyStep struct {
	// Policy is the key of the policy.
	Policy policy.Key `json:"policy"`
	// Staged means that the policy is staged and does not decide. Action is then the action that
	// the policy would have if it were enforced.
	Staged bool `json:"staged,omitempty"`
	// Rules in order, up to the one that decided.
	Rules []RuleStep `json:"rules,omitempty"`
	// Action of the rule that decided. Empty if none did.
	Action policy.Action `json:"action,omitempty"`
}

// ProfileStep is the evaluation of one profile.
type ProfileStep struct {
	// Profile is the name of the profile.
	Profile string `json:"profile"`
	// Missing means that there is no such profile. Action is then Deny.
	Missing bool `json:"missing,omitempty"`
	// Rules in order, up to the one that decided.
	Rules []RuleStep `json:"rules,omitempty"`
	// Action of the rule that decided. Empty if none did. If it is Pass, the profile denies the
	// packet.
	Action policy.Action `json:"action,omitempty"`
}

// RuleStep is the evaluation of one rule.
type RuleStep struct {
	// ID of the rule, see policy.RuleIDs.
	ID string `json:"id"`
	// Action of the rule.
	Action policy.Action `json:"action"`
	// Mismatch is why the rule does not match. Nil if it does.
	Mismatch *Mismatch `json:"mismatch,omitempty"`
	// Annotations of the rule.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Doubts are the reasons why the rule is closed. It then denies everything or matches nothing
	// (see policy.Rule.Close). Empty if the rule is not closed.
	Doubts []policy.Problem `json:"doubts,omitempty"`
}

// Mismatch is the reason why a rule does not match a flow. If several fields do not match, it
// describes the first one.
type Mismatch struct {
	// Field is the path of the field in the rule, as in "source.selector". "source.namespace" is
	// the implicit limit to the policy's own namespace. For a closed rule, Field is the path of the
	// first field in doubt, from the top of the original object: see policy.Rule.Doubts.
	Field string `json:"field"`
	// Reason is a text for people.
	Reason string `json:"reason"`
}
