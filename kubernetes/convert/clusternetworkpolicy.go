// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

const (
	// clusterNetworkPolicyPrefix is the prefix of the names of policies that come from a
	// ClusterNetworkPolicy.
	clusterNetworkPolicyPrefix = "kcnp."
	// maxPriority is the largest priority number that the API permits.
	maxPriority = 1000
	// maxRuleName is the maximum length of the name of a rule, in bytes. The API's limit is 100
	// characters.
	maxRuleName = 400
)

// Annotations of the rules that come from a ClusterNetworkPolicy.
const (
	// AnnotationRuleName is the annotation with the name of the rule. A rule without a name does
	// not have the annotation.
	AnnotationRuleName = "policy.networking.k8s.io/rule-name"
	// AnnotationFailClosed is the annotation with the reason why a closed rule denies everything. A
	// rule that was not understood is closed. If its action is Deny, Pass or unknown, it denies
	// everything and has this annotation.
	AnnotationFailClosed = "wayleave.dev/fail-closed"
)

// ClusterNetworkPolicy converts a ClusterNetworkPolicy to a policy without a namespace. The policy
// is in the tier kube-admin or kube-baseline. Its order is the object's priority.
//
// If a part of a rule is invalid, an error is reported, and the rule is closed. This happens in
// these cases:
//
//   - a peer or protocol is unknown or ambiguous;
//   - a CIDR or port is invalid;
//   - a peer is a domain name;
//   - the rule is over a limit of package policy.
//
// A closed Accept rule matches nothing. Any other closed rule, even one with an unknown action,
// denies every packet of its direction that reaches it. If all rules of a direction together are
// over a limit of package policy, one closed rule replaces them. It matches nothing if all of them
// are Accept rules. Otherwise, it denies everything.
//
// If the subject, the tier or the priority is invalid, there is no policy. Every error is an
// *Error.
func (c Converter) ClusterNetworkPolicy(cnp *policyv1alpha2.ClusterNetworkPolicy) (*policy.Policy, []error) {
	p, _ := begin(clusterVersion, "ClusterNetworkPolicy", cnp, false)
	spec := field.NewPath("spec")
	out := &policy.Policy{
		Name: clusterNetworkPolicyPrefix + cnp.Name, Tier: clusterTier(p, spec.Child("tier"), cnp.Spec.Tier),
	}
	order := float64(cnp.Spec.Priority)
	out.Order = &order
	if cnp.Spec.Priority < 0 || cnp.Spec.Priority > maxPriority {
		p.addf("spec.priority", "want 0 to %d, not %d", maxPriority, cnp.Spec.Priority)
	}
	subject := clusterSubject(p, spec.Child("subject"), &cnp.Spec.Subject, out)
	doubts := &problems{object: p.object}
	ingress, egress := clusterGroups(doubts, &cnp.Spec, subject)
	out.Ingress = assemble(doubts, spec.Child("ingress"), policy.Ingress, ingress)
	out.Egress = assemble(doubts, spec.Child("egress"), policy.Egress, egress)
	// A policy applies to a direction if the object has rules for the direction, even if all of
	// them are left out.
	if len(cnp.Spec.Ingress) > 0 {
		out.Types = append(out.Types, policy.Ingress)
	}
	if len(cnp.Spec.Egress) > 0 {
		out.Types = append(out.Types, policy.Egress)
	}
	return finishPolicy(out, p, doubts, renamed("name", "metadata.name", "", "spec."))
}

// clusterGroups converts the rules. It closes and reports those that are invalid.
func clusterGroups(
	doubts *problems, cnp *policyv1alpha2.ClusterNetworkPolicySpec, subject policy.EntityRule,
) (ingress, egress []ruleGroup) {
	spec := field.NewPath("spec")
	for i := range cnp.Ingress {
		r := &cnp.Ingress[i]
		rule := clusterRule{
			path: spec.Child("ingress").Index(i), peersField: "from",
			name: r.Name, action: r.Action, peers: ingressPeers(r.From), protocols: r.Protocols, subject: subject,
		}
		ingress = append(ingress,
			rule.convert(doubts, func(subject, peer policy.EntityRule, ports []policy.Port) policy.Rule {
				subject.Ports = ports
				return policy.Rule{Source: peer, Destination: subject}
			}))
	}
	for i := range cnp.Egress {
		r := &cnp.Egress[i]
		rule := clusterRule{
			path: spec.Child("egress").Index(i), peersField: "to", egress: true,
			name: r.Name, action: r.Action, peers: r.To, protocols: r.Protocols, subject: subject,
		}
		egress = append(egress,
			rule.convert(doubts, func(subject, peer policy.EntityRule, ports []policy.Port) policy.Rule {
				peer.Ports = ports
				return policy.Rule{Source: subject, Destination: peer}
			}))
	}
	return ingress, egress
}

func clusterTier(p *problems, path *field.Path, tier policyv1alpha2.Tier) string {
	switch tier {
	case policyv1alpha2.AdminTier:
		return policy.KubeAdminTier
	case policyv1alpha2.BaselineTier:
		return policy.KubeBaselineTier
	}
	p.addf(path.String(), "want Admin or Baseline, not %q", tier)
	return ""
}

// clusterSubject makes the policy select the subject's pods. Pods on the host's network are not
// endpoints, so they are never selected. It returns a condition on the subject, for Accept and Pass
// rules. The condition is empty, except if the selector can match because a namespace lacks a
// label. Then the condition is that the labels of the namespace are known.
func clusterSubject(
	p *problems, path *field.Path, s *policyv1alpha2.ClusterNetworkPolicySubject, out *policy.Policy,
) policy.EntityRule {
	var pods, namespaces *metav1.LabelSelector
	switch {
	case (s.Namespaces != nil) == (s.Pods != nil):
		p.addf(path.String(), "want exactly one of namespaces and pods")
		return policy.EntityRule{}
	case s.Namespaces != nil:
		namespaces, path = s.Namespaces, path.Child("namespaces")
		out.NamespaceSelector = selectorText(p, path, labelSelector(p, path, namespaces))
		out.Selector = podSelectorText(p, path, selector.All())
	default:
		namespaces, pods = &s.Pods.NamespaceSelector, &s.Pods.PodSelector
		path = path.Child("pods")
		out.NamespaceSelector = selectorText(p, path.Child("namespaceSelector"),
			labelSelector(p, path.Child("namespaceSelector"), namespaces))
		out.Selector = podSelectorText(p, path.Child("podSelector"), podSelector(p, path.Child("podSelector"), pods))
	}
	if known := knownNamespace(namespaces); known != nil {
		return policy.EntityRule{NamespaceSelector: known.String()}
	}
	return policy.EntityRule{}
}

// ingressPeers converts the peers of an ingress rule to the type of those of an egress rule.
func ingressPeers(
	list []policyv1alpha2.ClusterNetworkPolicyIngressPeer,
) []policyv1alpha2.ClusterNetworkPolicyEgressPeer {
	peers := make([]policyv1alpha2.ClusterNetworkPolicyEgressPeer, len(list))
	for i, peer := range list {
		peers[i] = policyv1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: peer.Namespaces, Pods: peer.Pods}
	}
	return peers
}

// ruleMetadata returns the annotations of a rule, or nil for none. It removes unprintable
// characters from the name, and cuts it at the maximum length.
func ruleMetadata(name, failClosed string) *policy.RuleMetadata {
	annotations := map[string]string{}
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, name)
	if len(name) > maxRuleName {
		name = strings.ToValidUTF8(name[:maxRuleName], "")
	}
	if name != "" {
		annotations[AnnotationRuleName] = name
	}
	if failClosed != "" {
		annotations[AnnotationFailClosed] = failClosed
	}
	if len(annotations) == 0 {
		return nil
	}
	return &policy.RuleMetadata{Annotations: annotations}
}
