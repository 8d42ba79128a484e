// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
)

// CalicoStagedGlobalNetworkPolicy converts a StagedGlobalNetworkPolicy to a staged policy without a namespace.
//
// With the staged action Set or Learn, or without one, there is a staged policy. Delete and Ignore give none, which is
// reported with ErrIgnored: a staged policy cannot represent the deletion of a policy. verdict.Diff shows the effect of
// a deletion. Every error is an *Error.
func (c Converter) CalicoStagedGlobalNetworkPolicy(s *calico.StagedGlobalNetworkPolicy) (*policy.Policy, []error) {
	p, _ := begin(calico.APIVersion, "StagedGlobalNetworkPolicy", s, false)
	doubts := &problems{object: p.object}
	out := globalPolicy(p, doubts, s.Name, &s.Spec.GlobalNetworkPolicySpec)
	if !staged(p, s.Spec.StagedAction) {
		return nil, p.refused()
	}
	out.Staged = true
	return finishPolicy(out, p, doubts, inSpec())
}

// CalicoStagedNetworkPolicy converts a StagedNetworkPolicy to a staged policy of its namespace.
// CalicoStagedGlobalNetworkPolicy describes the staged action. Every error is an *Error.
func (c Converter) CalicoStagedNetworkPolicy(s *calico.StagedNetworkPolicy) (*policy.Policy, []error) {
	p, namespace := begin(calico.APIVersion, "StagedNetworkPolicy", s, true)
	doubts := &problems{object: p.object}
	out := calicoPolicy(p, doubts, s.Name, namespace, &s.Spec.PolicySpec)
	if !staged(p, s.Spec.StagedAction) {
		return nil, p.refused()
	}
	out.Staged = true
	return finishPolicy(out, p, doubts, inSpec())
}

// CalicoStagedKubernetesNetworkPolicy converts a StagedKubernetesNetworkPolicy to a staged policy. It has the name of
// the policy that a Kubernetes NetworkPolicy of the same name gives. CalicoStagedGlobalNetworkPolicy describes the
// staged action, and NetworkPolicy the rules that are closed. Every error is an *Error.
func (c Converter) CalicoStagedKubernetesNetworkPolicy(
	s *calico.StagedKubernetesNetworkPolicy,
) (*policy.Policy, []error) {
	p, namespace := begin(calico.APIVersion, "StagedKubernetesNetworkPolicy", s, true)
	if !staged(p, s.Spec.StagedAction) {
		return nil, p.refused()
	}
	return networkPolicy(p, namespace, s.Name, &s.Spec.NetworkPolicySpec, true)
}

// staged reports whether the action gives a staged policy. If not, it reports why.
func staged(p *problems, action calico.StagedAction) bool {
	switch action {
	case "", calico.StagedActionSet, calico.StagedActionLearn:
		return true
	case calico.StagedActionDelete, calico.StagedActionIgnore:
		p.add("spec.stagedAction", fmt.Errorf("%w: %s gives no staged policy", ErrIgnored, action))
	default:
		p.addf("spec.stagedAction", "want Set, Delete, Learn or Ignore, not %q", action)
	}
	return false
}
