// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CalicoGlobalNetworkPolicy turns a Calico GlobalNetworkPolicy into a policy without a
// namespace. Every error is an *Error; with one, there is no policy.
func (c Converter) CalicoGlobalNetworkPolicy(gnp *calico.GlobalNetworkPolicy) (*policy.Policy, []error) {
	p, _ := begin("GlobalNetworkPolicy", gnp, false)
	p.unsupported("spec.doNotTrack", bool(gnp.Spec.DoNotTrack))
	p.unsupported("spec.preDNAT", bool(gnp.Spec.PreDNAT))
	p.unsupported("spec.applyOnForward", bool(gnp.Spec.ApplyOnForward))
	out := calicoPolicy(p, gnp.Name, &gnp.Spec.PolicySpec)
	out.NamespaceSelector = gnp.Spec.NamespaceSelector
	return finish(out, p, inSpec())
}

// CalicoNetworkPolicy turns a Calico NetworkPolicy into a policy of its namespace. Every
// error is an *Error; with one, there is no policy.
func (c Converter) CalicoNetworkPolicy(np *calico.NetworkPolicy) (*policy.Policy, []error) {
	p, namespace := begin("NetworkPolicy", np, true)
	out := calicoPolicy(p, np.Name, &np.Spec)
	out.Namespace = namespace
	return finish(out, p, inSpec())
}

// CalicoTier turns a Calico Tier into a tier. Every error is an *Error; with one, there is no tier.
func (c Converter) CalicoTier(tier *calico.Tier) (*policy.Tier, []error) {
	p, _ := begin("Tier", tier, false)
	out := &policy.Tier{
		Name:          tier.Name,
		Order:         clonePointer(tier.Spec.Order),
		DefaultAction: policy.Action(tier.Spec.DefaultAction),
	}
	return finish(out, p, inSpec())
}

// CalicoProfile turns a Calico Profile into a profile. Every error is an *Error; with one,
// there is no profile, and endpoints that list it are denied everything.
func (c Converter) CalicoProfile(profile *calico.Profile) (*policy.Profile, []error) {
	p, _ := begin("Profile", profile, false)
	out := &policy.Profile{
		Name:          profile.Name,
		LabelsToApply: maps.Clone(profile.Spec.LabelsToApply),
		Ingress:       calicoRules(p, "spec.ingress", profile.Spec.Ingress),
		Egress:        calicoRules(p, "spec.egress", profile.Spec.Egress),
	}
	return finish(out, p, inSpec())
}

// CalicoGlobalNetworkSet turns a Calico GlobalNetworkSet into a network set without a
// namespace. Every error is an *Error; with one, there is no set.
func (c Converter) CalicoGlobalNetworkSet(set *calico.GlobalNetworkSet) (*policy.NetworkSet, []error) {
	p, _ := begin("GlobalNetworkSet", set, false)
	return networkSet(p, "", set, set.Spec)
}

// CalicoNetworkSet turns a Calico NetworkSet into a network set of its namespace. Every
// error is an *Error; with one, there is no set.
func (c Converter) CalicoNetworkSet(set *calico.NetworkSet) (*policy.NetworkSet, []error) {
	p, namespace := begin("NetworkSet", set, true)
	return networkSet(p, namespace, set, set.Spec)
}

func networkSet(p *problems, namespace string, meta metav1.Object, spec calico.NetworkSetSpec) (*policy.NetworkSet, []error) {
	checkReservedLabels(p, meta.GetLabels())
	out := &policy.NetworkSet{
		Namespace: namespace,
		Name:      meta.GetName(),
		Labels:    maps.Clone(meta.GetLabels()),
		Nets:      calicoNets(p, "spec.nets", spec.Nets),
	}
	return finish(out, p, inSpec())
}

// calicoPolicy translates what both kinds of policy have in common.
func calicoPolicy(p *problems, name string, spec *calico.PolicySpec) *policy.Policy {
	out := &policy.Policy{
		Name:                   name,
		Tier:                   spec.Tier,
		Order:                  clonePointer(spec.Order),
		Selector:               spec.Selector,
		ServiceAccountSelector: spec.ServiceAccountSelector,
		Ingress:                calicoRules(p, "spec.ingress", spec.Ingress),
		Egress:                 calicoRules(p, "spec.egress", spec.Egress),
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
