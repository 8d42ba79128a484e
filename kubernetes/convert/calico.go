// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CalicoGlobalNetworkPolicy converts a Calico GlobalNetworkPolicy to a policy without a namespace.
//
// If a rule is not understood, an error is reported, and the rule is closed. A closed Allow or Log
// rule matches nothing. Any other closed rule denies every packet that reaches it. If a field
// outside of the rules is invalid, such as a selector or the tier, there is no policy. Every error
// is an *Error.
func (c Converter) CalicoGlobalNetworkPolicy(gnp *calico.GlobalNetworkPolicy) (*policy.Policy, []error) {
	p, _ := begin(calico.APIVersion, "GlobalNetworkPolicy", gnp, false)
	doubts := &problems{object: p.object}
	return finishPolicy(globalPolicy(p, doubts, gnp.Name, &gnp.Spec), p, doubts, inSpec())
}

// globalPolicy converts the fields that a GlobalNetworkPolicy and a StagedGlobalNetworkPolicy both
// have.
func globalPolicy(p, doubts *problems, name string, spec *calico.GlobalNetworkPolicySpec) *policy.Policy {
	out := calicoPolicy(p, doubts, name, "", &spec.PolicySpec)
	out.NamespaceSelector = spec.NamespaceSelector
	out.ApplyOnForward = spec.ApplyOnForward
	out.DoNotTrack = spec.DoNotTrack
	out.PreDNAT = spec.PreDNAT
	return out
}

// CalicoNetworkPolicy converts a Calico NetworkPolicy to a policy of its namespace. Errors have the
// same effect as in CalicoGlobalNetworkPolicy. Every error is an *Error.
func (c Converter) CalicoNetworkPolicy(np *calico.NetworkPolicy) (*policy.Policy, []error) {
	p, namespace := begin(calico.APIVersion, "NetworkPolicy", np, true)
	doubts := &problems{object: p.object}
	return finishPolicy(calicoPolicy(p, doubts, np.Name, namespace, &np.Spec), p, doubts, inSpec())
}

// CalicoTier converts a Calico Tier to a tier. If there is an error, there is no tier. Every error
// is an *Error.
func (c Converter) CalicoTier(tier *calico.Tier) (*policy.Tier, []error) {
	p, _ := begin(calico.APIVersion, "Tier", tier, false)
	out := &policy.Tier{
		Name:          tier.Name,
		Order:         clonePointer(tier.Spec.Order),
		DefaultAction: policy.Action(tier.Spec.DefaultAction),
	}
	return finish(out, p, inSpec())
}

// CalicoProfile converts a Calico Profile to a profile. A Calico Profile whose name begins with
// "kns." stands for a namespace, instead of a Namespace object. So the converted profile gets the
// label "pcns.wayleave.dev/known", as for a Namespace. This label marks that the labels of the
// namespace are known. If there is an error, there is no profile, and all traffic of endpoints that
// list the profile is denied. Every error is an *Error.
func (c Converter) CalicoProfile(profile *calico.Profile) (*policy.Profile, []error) {
	p, _ := begin(calico.APIVersion, "Profile", profile, false)
	labels := maps.Clone(profile.Spec.LabelsToApply)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if k == labelOrchestrator || k == policy.LabelServiceAccount || strings.HasPrefix(k, NodeLabelPrefix) {
			p.addf("spec.labelsToApply["+strconv.Quote(k)+"]",
				"the label is reserved: Wayleave sets it itself")
		}
	}
	if strings.HasPrefix(profile.Name, namespaceProfilePrefix) {
		labels = cloneLabels(labels)
		labels[policy.NamespaceLabelPrefix+labelKnown] = "true"
	}
	out := &policy.Profile{
		Name:          profile.Name,
		LabelsToApply: labels,
		Ingress:       calicoProfileRules(p, "spec.ingress", profile.Spec.Ingress),
		Egress:        calicoProfileRules(p, "spec.egress", profile.Spec.Egress),
	}
	return finish(out, p, inSpec())
}

// CalicoGlobalNetworkSet converts a Calico GlobalNetworkSet to a network set without a namespace.
// Reserved labels (see the package comment) are left out and reported. If there is any other error,
// there is no set. Every error is an *Error.
func (c Converter) CalicoGlobalNetworkSet(set *calico.GlobalNetworkSet) (*policy.NetworkSet, []error) {
	p, _ := begin(calico.APIVersion, "GlobalNetworkSet", set, false)
	p.reserve(set.Name, nodeSetPrefix)
	return networkSet(p, "", set, set.Spec)
}

// CalicoNetworkSet converts a Calico NetworkSet to a network set in the same namespace. The set
// also gets the labels pcns.projectcalico.org/name and pcns.kubernetes.io/metadata.name. Their
// value is the name of the namespace. Reserved labels of the object (see the package comment) are
// left out and reported. If there is any other error, there is no set. Every error is an *Error.
func (c Converter) CalicoNetworkSet(set *calico.NetworkSet) (*policy.NetworkSet, []error) {
	p, namespace := begin(calico.APIVersion, "NetworkSet", set, true)
	return networkSet(p, namespace, set, set.Spec)
}

func networkSet(
	p *problems, namespace string, meta metav1.Object, spec calico.NetworkSetSpec,
) (*policy.NetworkSet, []error) {
	labels := ownLabels(p, meta.GetLabels())
	if namespace != "" {
		labels = cloneLabels(labels)
		labelNamespaceName(labels, namespace)
	}
	out := &policy.NetworkSet{
		Namespace: namespace,
		Name:      meta.GetName(),
		Labels:    labels,
		Nets:      calicoNets(p, "spec.nets", spec.Nets),
	}
	return finish(out, p, inSpec())
}

// calicoPolicy converts the fields that global and namespaced policies both have.
func calicoPolicy(p, doubts *problems, name, namespace string, spec *calico.PolicySpec) *policy.Policy {
	p.reserve(name, networkPolicyPrefix, clusterNetworkPolicyPrefix)
	out := &policy.Policy{
		Namespace:              namespace,
		Name:                   name,
		Tier:                   spec.Tier,
		Order:                  clonePointer(spec.Order),
		Selector:               spec.Selector,
		ServiceAccountSelector: spec.ServiceAccountSelector,
		Ingress:                calicoPolicyRules(doubts, "spec.ingress", spec.Ingress, namespace != ""),
		Egress:                 calicoPolicyRules(doubts, "spec.egress", spec.Egress, namespace != ""),
	}
	for _, t := range spec.Types {
		out.Types = append(out.Types, policy.Type(t))
	}
	for _, h := range spec.PerformanceHints {
		out.PerformanceHints = append(out.PerformanceHints, policy.PerformanceHint(h))
	}
	return out
}

// inSpec returns a function that converts the path of a resource's field to the path in a Calico
// object. Fields have the same names there, and are in the spec.
func inSpec() func(string) string {
	return renamed("name", "metadata.name", "labels", "metadata.labels", "", "spec.")
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
