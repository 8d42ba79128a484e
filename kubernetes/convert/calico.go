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

// CalicoGlobalNetworkPolicy turns a Calico GlobalNetworkPolicy into a policy without a namespace.
//
// A rule that is not understood is closed alone and reported: one that allows or logs matches
// nothing, any other denies everything from its place on. Where the scope is wrong (selectors,
// tier, order, types and the like) there is no policy. Every error is an *Error.
func (c Converter) CalicoGlobalNetworkPolicy(gnp *calico.GlobalNetworkPolicy) (*policy.Policy, []error) {
	p, _ := begin(calico.APIVersion, "GlobalNetworkPolicy", gnp, false)
	doubts := &problems{object: p.object}
	return finishPolicy(globalPolicy(p, doubts, gnp.Name, &gnp.Spec), p, doubts, inSpec())
}

// globalPolicy translates what a global policy and its staged twin have in common.
func globalPolicy(p, doubts *problems, name string, spec *calico.GlobalNetworkPolicySpec) *policy.Policy {
	out := calicoPolicy(p, doubts, name, "", &spec.PolicySpec)
	out.NamespaceSelector = spec.NamespaceSelector
	out.ApplyOnForward = spec.ApplyOnForward
	out.DoNotTrack = spec.DoNotTrack
	out.PreDNAT = spec.PreDNAT
	return out
}

// CalicoNetworkPolicy turns a Calico NetworkPolicy into a policy of its namespace. For rules that
// are not understood see CalicoGlobalNetworkPolicy. Every error is an *Error.
func (c Converter) CalicoNetworkPolicy(np *calico.NetworkPolicy) (*policy.Policy, []error) {
	p, namespace := begin(calico.APIVersion, "NetworkPolicy", np, true)
	doubts := &problems{object: p.object}
	return finishPolicy(calicoPolicy(p, doubts, np.Name, namespace, &np.Spec), p, doubts, inSpec())
}

// CalicoTier turns a Calico Tier into a tier. Every error is an *Error; with one, there is no tier.
func (c Converter) CalicoTier(tier *calico.Tier) (*policy.Tier, []error) {
	p, _ := begin(calico.APIVersion, "Tier", tier, false)
	out := &policy.Tier{
		Name:          tier.Name,
		Order:         clonePointer(tier.Spec.Order),
		DefaultAction: policy.Action(tier.Spec.DefaultAction),
	}
	return finish(out, p, inSpec())
}

// CalicoProfile turns a Calico Profile into a profile. One whose name begins with "kns." stands for
// a Namespace object, and says that the namespace's labels are known. Every error is an *Error;
// with one, there is no profile, and endpoints that list it are denied everything.
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

// CalicoGlobalNetworkSet turns a Calico GlobalNetworkSet into a network set without a namespace.
// Labels that are reserved are left out and reported. Every error is an *Error; with another one,
// there is no set.
func (c Converter) CalicoGlobalNetworkSet(set *calico.GlobalNetworkSet) (*policy.NetworkSet, []error) {
	p, _ := begin(calico.APIVersion, "GlobalNetworkSet", set, false)
	p.reserve(set.Name, nodeSetPrefix)
	return networkSet(p, "", set, set.Spec)
}

// CalicoNetworkSet turns a Calico NetworkSet into a network set of its namespace, which carries the
// labels that follow from the namespace's name. Labels that are reserved are left out and reported.
// Every error is an *Error; with another one, there is no set.
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

// calicoPolicy translates what both kinds of policy have in common.
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

// inSpec returns the translation of field paths for Calico objects: their fields have the
// names of the resource's fields, and are in the spec.
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
