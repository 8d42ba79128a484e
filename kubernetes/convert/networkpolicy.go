// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"slices"

	"github.com/wayleave/wayleave/policy"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// networkPolicyPrefix is the prefix of the names of policies that come from a NetworkPolicy of
	// Kubernetes, or from a StagedKubernetesNetworkPolicy. No other policy may have such a name.
	networkPolicyPrefix = "knp.default."
	// networkPolicyOrder is the order of these policies in the default tier.
	networkPolicyOrder = 1000
)

// NetworkPolicy converts a Kubernetes NetworkPolicy to a policy of the default tier.
//
// If a rule is invalid, an error is reported, and the rule is closed. A closed rule matches
// nothing, because the rules of a NetworkPolicy can only allow. The policy still isolates the pods
// that it selects. Errors are, for example, a port out of range, an unknown operator, an ambiguous
// peer, and a rule over the limits of package policy. If all rules of a direction together are over
// a limit, one closed rule replaces them. If the pod selector or the policy types are invalid,
// there is no policy. Every error is an *Error.
//
// If policyTypes is missing, the default is that of the API server: Ingress, and also Egress if
// there are egress rules. Rules of a direction that is not in policyTypes have no effect.
func (c Converter) NetworkPolicy(np *networkingv1.NetworkPolicy) (*policy.Policy, []error) {
	p, namespace := begin(networkingVersion, "NetworkPolicy", np, true)
	return networkPolicy(p, namespace, np.Name, &np.Spec, false)
}

// networkPolicy does the work of NetworkPolicy, also for staged policies.
func networkPolicy(
	p *problems, namespace, name string, np *networkingv1.NetworkPolicySpec, staged bool,
) (*policy.Policy, []error) {
	spec := field.NewPath("spec")
	podPath := spec.Child("podSelector")
	pods := podSelectorText(p, podPath, podSelector(p, podPath, &np.PodSelector))
	types := policyTypes(p, np)
	if p.any() {
		return nil, p.refused()
	}
	order := float64(networkPolicyOrder)
	out := &policy.Policy{
		Namespace: namespace,
		Name:      networkPolicyPrefix + name,
		Staged:    staged,
		Tier:      policy.DefaultTier,
		Order:     &order,
		Selector:  pods,
		Types:     types,
	}
	doubts := &problems{object: p.object}
	if slices.Contains(types, policy.Ingress) {
		path := spec.Child("ingress")
		out.Ingress = assemble(doubts, path, policy.Ingress, ingressGroups(doubts, path, np.Ingress))
	}
	if slices.Contains(types, policy.Egress) {
		path := spec.Child("egress")
		out.Egress = assemble(doubts, path, policy.Egress, egressGroups(doubts, path, np.Egress))
	}
	return finishPolicy(out, p, doubts,
		renamed("name", "metadata.name", "namespace", "metadata.namespace", "", "spec."))
}

// policyTypes returns the directions of the policy.
func policyTypes(p *problems, np *networkingv1.NetworkPolicySpec) []policy.Type {
	if len(np.PolicyTypes) == 0 {
		if len(np.Egress) > 0 {
			return []policy.Type{policy.Ingress, policy.Egress}
		}
		return []policy.Type{policy.Ingress}
	}
	var types []policy.Type
	for i, t := range np.PolicyTypes {
		if t != networkingv1.PolicyTypeIngress && t != networkingv1.PolicyTypeEgress {
			p.addf(field.NewPath("spec", "policyTypes").Index(i).String(), "%q is not Ingress or Egress", t)
			continue
		}
		if !slices.Contains(types, policy.Type(t)) {
			types = append(types, policy.Type(t))
		}
	}
	return types
}

// ingressGroups converts the rules. It closes and reports those that are invalid.
func ingressGroups(p *problems, path *field.Path, rules []networkingv1.NetworkPolicyIngressRule) []ruleGroup {
	groups := make([]ruleGroup, len(rules))
	for i, rule := range rules {
		groups[i] = allowRules(p, path.Index(i), "from", rule.From, rule.Ports,
			func(peer policy.EntityRule, ports []policy.Port) policy.Rule {
				return policy.Rule{Source: peer, Destination: policy.EntityRule{Ports: ports}}
			})
	}
	return groups
}

// egressGroups converts the rules. It closes and reports those that are invalid.
func egressGroups(p *problems, path *field.Path, rules []networkingv1.NetworkPolicyEgressRule) []ruleGroup {
	groups := make([]ruleGroup, len(rules))
	for i, rule := range rules {
		groups[i] = allowRules(p, path.Index(i), "to", rule.To, rule.Ports,
			func(peer policy.EntityRule, ports []policy.Port) policy.Rule {
				peer.Ports = ports
				return policy.Rule{Destination: peer}
			})
	}
	return groups
}

// allowRules converts a rule of either direction. name is the name of the field with the rule's
// peers.
func allowRules(
	p *problems, path *field.Path, name string,
	from []networkingv1.NetworkPolicyPeer, list []networkingv1.NetworkPolicyPort,
	put func(policy.EntityRule, []policy.Port) policy.Rule,
) ruleGroup {
	group := ruleGroup{path: path, peersField: name, portsField: "ports", closed: policy.Rule{Action: policy.Allow}}
	before := len(p.list)
	peers := rulePeers(p, path.Child(name), from)
	ports := rulePorts(p, path.Child("ports"), list)
	if len(p.list) > before {
		group.close(p.list[before:])
	} else {
		group.cross(peers, ports, put)
	}
	return group
}
