// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
)

// CalicoStagedGlobalNetworkPolicy converts a StagedGlobalNetworkPolicy to a staged policy without a
// namespace.
//
// If the staged action is Set, Learn or empty, the result is a staged policy. If it is Delete or
// Ignore, the result is nil and an error that wraps ErrIgnored. A staged policy cannot represent
// the deletion of a policy. To see the effect of a deletion, use verdict.Diff. Every error is an
// *Error.
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

// CalicoStagedNetworkPolicy converts a StagedNetworkPolicy to a staged policy of its namespace. The
// staged action has the same effect as with CalicoStagedGlobalNetworkPolicy. Every error is an
// *Error.
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

// CalicoStagedKubernetesNetworkPolicy converts a StagedKubernetesNetworkPolicy to a staged policy.
// The name of the policy is "knp.default." followed by the name of the object, as with
// Converter.NetworkPolicy. The staged action has the same effect as with
// CalicoStagedGlobalNetworkPolicy. Errors in rules have the same effect as with
// Converter.NetworkPolicy. Every error is an *Error.
func (c Converter) CalicoStagedKubernetesNetworkPolicy(
	s *calico.StagedKubernetesNetworkPolicy,
) (*policy.Policy, []error) {
	p, namespace := begin(calico.APIVersion, "StagedKubernetesNetworkPolicy", s, true)
	if !staged(p, s.Spec.StagedAction) {
		return nil, p.refused()
	}
	return networkPolicy(p, namespace, s.Name, &s.Spec.NetworkPolicySpec, true)
}

// staged reports whether an object with the action becomes a staged policy. If not, it adds the
// reason to p.
func staged(p *problems, action calico.StagedAction) bool {
	switch action {
	case "", calico.StagedActionSet, calico.StagedActionLearn:
		return true
	case calico.StagedActionDelete, calico.StagedActionIgnore:
		p.add("spec.stagedAction", fmt.Errorf("%w: %s creates no staged policy", ErrIgnored, action))
	default:
		p.addf("spec.stagedAction", "want Set, Delete, Learn or Ignore, not %q", action)
	}
	return false
}
