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
// A rule that is not understood is closed and reported: an Allow or Log rule matches nothing, any other denies
// everything from its place on. If the scope is invalid (selectors, tier, order, types and the like), there is no
// policy. Every error is an *Error.
func (c Converter) CalicoGlobalNetworkPolicy(gnp *calico.GlobalNetworkPolicy) (*policy.Policy, []error) {
	p, _ := begin(calico.APIVersion, "GlobalNetworkPolicy", gnp, false)
	doubts := &problems{object: p.object}
	return finishPolicy(globalPolicy(p, doubts, gnp.Name, &gnp.Spec), p, doubts, inSpec())
}

// globalPolicy converts the common part of a global policy and a staged one.
func globalPolicy(p, doubts *problems, name string, spec *calico.GlobalNetworkPolicySpec) *policy.Policy {
	out := calicoPolicy(p, doubts, name, "", &spec.PolicySpec)
	out.NamespaceSelector = spec.NamespaceSelector
	out.ApplyOnForward = spec.ApplyOnForward
	out.DoNotTrack = spec.DoNotTrack
	out.PreDNAT = spec.PreDNAT
	return out
}

// CalicoNetworkPolicy converts a Calico NetworkPolicy to a policy of its namespace. CalicoGlobalNetworkPolicy describes
// rules that are not understood. Every error is an *Error.
func (c Converter) CalicoNetworkPolicy(np *calico.NetworkPolicy) (*policy.Policy, []error) {
	p, namespace := begin(calico.APIVersion, "NetworkPolicy", np, true)
	doubts := &problems{object: p.object}
	return finishPolicy(calicoPolicy(p, doubts, np.Name, namespace, &np.Spec), p, doubts, inSpec())
}

// CalicoTier converts a Calico Tier to a tier. Every error is an *Error; with one, there is no tier.
func (c Converter) CalicoTier(tier *calico.Tier) (*policy.Tier, []error) {
	p, _ := begin(calico.APIVersion, "Tier", tier, false)
	out := &policy.Tier{
		Name:          tier.Name,
		Order:         clonePointer(tier.Spec.Order),
		DefaultAction: policy.Action(tier.Spec.DefaultAction),
	}
	return finish(out, p, inSpec())
}

// CalicoProfile converts a Calico Profile to a profile. If its name begins with "kns.", it replaces a Namespace object,
// and the labels of the namespace count as known. Every error is an *Error; with one, there is no profile, and
// endpoints that list it are denied everything.
func (c Converter) CalicoProfile(profile *calico.Profile) (*policy.Profile, []error) {
	p, _ := begin(calico.APIVersion, "Profile", profile, false)
	labels := maps.Clone(profile.Spec.LabelsToApply)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if k == labelOrchestrator || k == policy.LabelServiceAccount || strings.HasPrefix(k, NodeLabelPrefix) {
			p.addf("spec.labelsToApply["+strconv.Quote(k)+"]",
				"the label is reserved: it is derived from the object, never given")
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

// CalicoGlobalNetworkSet converts a Calico GlobalNetworkSet to a network set without a namespace. Reserved labels are
// left out and reported. For any other error, there is no set. Every error is an *Error.
func (c Converter) CalicoGlobalNetworkSet(set *calico.GlobalNetworkSet) (*policy.NetworkSet, []error) {
	p, _ := begin(calico.APIVersion, "GlobalNetworkSet", set, false)
	p.reserve(set.Name, nodeSetPrefix)
	return networkSet(p, "", set, set.Spec)
}

// CalicoNetworkSet converts a Calico NetworkSet to a network set of its namespace. The set gets the labels that follow
// from the name of the namespace. Reserved labels are left out and reported. For any other error, there is no set.
// Every error is an *Error.
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

// calicoPolicy converts the common part of both kinds of policy.
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

// inSpec returns a function that converts field paths for Calico objects: their fields have the names of the resource's
// fields, and are in the spec.
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
