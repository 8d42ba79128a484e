// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
)

// CalicoStagedGlobalNetworkPolicy turns a StagedGlobalNetworkPolicy into a staged policy without a
// namespace.
//
// The staged action decides: Set, Learn and none make a staged policy. Delete and Ignore make
// nothing, which is reported with ErrIgnored: a staged policy cannot stand for one that goes;
// verdict.Diff shows what its going changes. Every error is an *Error.
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

// CalicoStagedNetworkPolicy turns a StagedNetworkPolicy into a staged policy of its namespace. For
// the staged action see CalicoStagedGlobalNetworkPolicy. Every error is an *Error.
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

// CalicoStagedKubernetesNetworkPolicy turns a StagedKubernetesNetworkPolicy into a staged policy of
// the name that the Kubernetes NetworkPolicy of its name has. For the staged action see
// CalicoStagedGlobalNetworkPolicy; for rules that are closed see NetworkPolicy. Every error is an
// *Error.
func (c Converter) CalicoStagedKubernetesNetworkPolicy(
	s *calico.StagedKubernetesNetworkPolicy,
) (*policy.Policy, []error) {
	p, namespace := begin(calico.APIVersion, "StagedKubernetesNetworkPolicy", s, true)
	if !staged(p, s.Spec.StagedAction) {
		return nil, p.refused()
	}
	return networkPolicy(p, namespace, s.Name, &s.Spec.NetworkPolicySpec, true)
}

// staged reports whether a staged policy is to be made, and says why where it is not.
func staged(p *problems, action calico.StagedAction) bool {
	switch action {
	case "", calico.StagedActionSet, calico.StagedActionLearn:
		return true
	case calico.StagedActionDelete, calico.StagedActionIgnore:
		p.add("spec.stagedAction", fmt.Errorf("%w: %s makes no staged policy", ErrIgnored, action))
	default:
		p.addf("spec.stagedAction", "want Set, Delete, Learn or Ignore, not %q", action)
	}
	return false
}
