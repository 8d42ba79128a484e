// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"slices"

	"github.com/wayleave/wayleave/policy"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// networkPolicyPrefix stands before the names of policies that come from Kubernetes, so
	// that they never meet a Calico policy of the same name.
	networkPolicyPrefix = "knp.default."
	// networkPolicyOrder is the order of all of them in the default tier.
	networkPolicyOrder = 1000
)

// NetworkPolicy turns a Kubernetes NetworkPolicy into a policy of the default tier.
//
// Its rules can only allow. A rule with anything wrong in it (a port out of range, an unknown
// operator, a peer that says two things) is therefore closed alone, so that it matches nothing, and
// reported: the policy still isolates the pods that it selects. So is one that is over the limits
// of package policy; where all rules of a direction together are, one closed rule stands for them.
// Where the pod selector or the policy types are wrong there is no policy. Every error is an
// *Error.
//
// The API server fills in policyTypes; where they are missing this does the same: Ingress always,
// Egress if there are egress rules. Rules for a direction that is not among the types do not count.
func (c Converter) NetworkPolicy(np *networkingv1.NetworkPolicy) (*policy.Policy, []error) {
	p, namespace := begin(networkingVersion, "NetworkPolicy", np, true)
	return networkPolicy(p, namespace, np.Name, &np.Spec, false)
}

// networkPolicy does the work of NetworkPolicy, for staged ones too.
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

// policyTypes returns the directions in which the policy counts.
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

// ingressGroups translates the rules, or reports what is wrong with them and closes them.
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

// egressGroups translates the rules, or reports what is wrong with them and closes them.
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

// allowRules translates a rule of either direction, whose peers are in the field of the given name.
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
