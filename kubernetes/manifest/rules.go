// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

var errRequired = errors.New("required")

// newRule returns a function that makes an empty rule of a direction. It returns nil if the rules
// of the kind are not decoded one by one.
func newRule(id identity, direction string) func() any {
	switch id.apiVersion + " " + id.kind + " " + direction {
	case "networking.k8s.io/v1 NetworkPolicy ingress":
		return func() any { return &networkingv1.NetworkPolicyIngressRule{} }
	case "networking.k8s.io/v1 NetworkPolicy egress":
		return func() any { return &networkingv1.NetworkPolicyEgressRule{} }
	case calico.APIVersion + " StagedKubernetesNetworkPolicy ingress":
		return func() any { return &networkingv1.NetworkPolicyIngressRule{} }
	case calico.APIVersion + " StagedKubernetesNetworkPolicy egress":
		return func() any { return &networkingv1.NetworkPolicyEgressRule{} }
	case clusterNetworkPolicies + " ClusterNetworkPolicy ingress":
		return func() any { return &policyv1alpha2.ClusterNetworkPolicyIngressRule{} }
	case clusterNetworkPolicies + " ClusterNetworkPolicy egress":
		return func() any { return &policyv1alpha2.ClusterNetworkPolicyEgressRule{} }
	}
	if hasCalicoRules(id) && (direction == "ingress" || direction == "egress") {
		return func() any { return &calico.Rule{} }
	}
	return nil
}

// hasCalicoRules reports whether the kind is a policy with Calico's rules.
func hasCalicoRules(id identity) bool {
	kinds := []string{"GlobalNetworkPolicy", "NetworkPolicy", "StagedGlobalNetworkPolicy", "StagedNetworkPolicy"}
	return id.apiVersion == calico.APIVersion && slices.Contains(kinds, id.kind)
}

// broken returns the paths of rules, directions and actions in which the reader found errors.
// Examples are "spec.ingress[0]", "spec.ingress" and "spec.ingress[0].action". The result is nil if
// there are errors elsewhere, or if the rules of the kind are not decoded one by one. The object is
// then refused.
func (d *document) broken(wrong []nodeError, id identity) map[string]bool {
	broken := map[string]bool{}
	for _, w := range wrong {
		steps := w.at.steps()
		if len(steps) < 2 || steps[0].key != "spec" || newRule(id, steps[1].key) == nil {
			return nil
		}
		path := join("spec", steps[1].key)
		if len(steps) > 2 {
			path += fmt.Sprintf("[%d]", steps[2].index)
		}
		broken[path] = true
		if len(steps) == 4 && steps[3].key == "action" {
			broken[path+".action"] = true
		}
	}
	return broken
}

// doubtfulRules decodes the rules of policies one by one. A rule is doubtful if it does not decode
// completely, for example because of a field of a newer API or an invalid port. It is also doubtful
// if the reader has found an error in it. Such a rule must not remove the policy, without which
// everything would be allowed. The function replaces such a rule in the object by one that the
// converter closes: see doubtfulRule. An Allow rule then matches nothing. A Deny rule, and one with
// an unknown action, denies everything. If the rules of a direction are not a list, one such rule
// replaces them.
//
// It returns the errors, and the paths of the replaced rules. The value of a path is whether an
// error of its action was reported.
func doubtfulRules(id identity, object map[string]any, broken map[string]bool) ([]fieldError, map[string]bool) {
	var found []fieldError
	replaced := map[string]bool{}
	spec, _ := object["spec"].(map[string]any)
	for _, direction := range []string{"egress", "ingress"} {
		newRule, path := newRule(id, direction), "spec."+direction
		value, given := spec[direction]
		if newRule == nil || !given {
			continue
		}
		rules, isList := value.([]any)
		if !isList || broken[path] {
			if !broken[path] {
				wrong := notList(id, value)
				if wrong == nil {
					continue
				}
				found = append(found, fieldError{path, wrong})
			}
			spec[direction] = []any{doubtfulRule(id, nil, direction)}
			replaced[path+"[0]"] = true
			continue
		}
		for i := range rules {
			at := fmt.Sprintf("%s[%d]", path, i)
			fields, isRule := rules[i].(map[string]any)
			wrong, actionReported := ruleProblems(id, fields, newRule), broken[at+".action"] || !isRule
			switch {
			case broken[at]:
				wrong = nil // its content may not be complete
			case !isRule:
				wrong = []fieldError{{"", errors.New("want a mapping")}}
			case len(wrong) == 0:
				continue
			}
			for _, w := range wrong {
				found = append(found, fieldError{join(at, w.field), w.err})
				actionReported = actionReported || w.field == "action"
			}
			rules[i] = doubtfulRule(id, fields, direction)
			replaced[at] = actionReported
		}
	}
	return found, replaced
}

// notList returns the error of rules that are not a list. Kinds of Kubernetes permit null.
func notList(id identity, value any) error {
	switch {
	case value != nil:
		return errors.New("want a list")
	case !permitsNull(id):
		return errNull
	}
	return nil
}

// permitsNull reports whether the kind permits null, which means no rules.
func permitsNull(id identity) bool { return id.apiVersion == "networking.k8s.io/v1" }

// ruleProblems returns the errors of a rule.
func ruleProblems(id identity, rule map[string]any, newRule func() any) []fieldError {
	var found []fieldError
	if !permitsNull(id) {
		found = findNulls(rule, "")
	}
	for _, side := range []string{"from", "to"} {
		if id.apiVersion != clusterNetworkPolicies {
			break
		}
		peers, _ := rule[side].([]any)
		for i, peer := range peers {
			fields, _ := peer.(map[string]any)
			found = append(found, withoutPodSelector(fields, fmt.Sprintf("%s[%d]", side, i))...)
		}
	}
	return append(found, decodeStrict(rule, newRule(), newRule)...)
}

// clusterRequired returns the missing fields that a ClusterNetworkPolicy requires. A missing
// priority would decode as the most urgent one, a missing subject as all pods.
func clusterRequired(id identity, object map[string]any) []fieldError {
	spec, ok := object["spec"].(map[string]any)
	if id.apiVersion != clusterNetworkPolicies || !ok {
		return nil
	}
	var found []fieldError
	for _, key := range slices.Sorted(maps.Keys(spec)) {
		if key != "ingress" && key != "egress" { // rules are decoded one by one
			found = append(found, findNulls(spec[key], joinKey("spec", key))...)
		}
	}
	if _, ok := spec["priority"]; !ok {
		found = append(found, fieldError{"spec.priority", errRequired})
	}
	subject, _ := spec["subject"].(map[string]any)
	return append(found, withoutPodSelector(subject, "spec.subject")...)
}

// withoutPodSelector reports a subject or peer by pods without a pod selector.
func withoutPodSelector(peer map[string]any, path string) []fieldError {
	pods, ok := peer["pods"].(map[string]any)
	if !ok {
		return nil
	}
	if _, ok := pods["podSelector"]; ok {
		return nil
	}
	return []fieldError{{join(path, "pods.podSelector"), errRequired}}
}

// doubtfulRule returns a rule that the converter closes: one with an empty peer, or with an
// unsupported field. It has the name and action of the rule that it replaces, if they can be read
// and the kind has them.
func doubtfulRule(id identity, rule map[string]any, direction string) map[string]any {
	out := map[string]any{}
	var keep []string
	switch {
	case hasCalicoRules(id):
		keep = []string{"action"}
	case id.apiVersion == clusterNetworkPolicies:
		keep = []string{"name", "action"}
	}
	for _, key := range keep {
		if text, ok := rule[key].(string); ok {
			out[key] = text
		}
	}
	switch {
	case hasCalicoRules(id):
		out["http"] = true
	case direction == "egress":
		out["to"] = []any{map[string]any{}}
	default:
		out["from"] = []any{map[string]any{}}
	}
	return out
}

// ruleOf returns the prefix of a path that names a rule, such as "spec.ingress[0]", or the rule
// that replaces its direction.
func ruleOf(path string) string {
	rule, _, found := strings.Cut(path, "]")
	if !found {
		return path + "[0]"
	}
	return rule + "]"
}

// recordDoubts sets the doubts of the replaced rules to the errors of the original rules, instead
// of those of the replacements.
func recordDoubts(resources []policy.Resource, replaced map[string]bool, found []fieldError) {
	doubts := map[string][]policy.Problem{}
	for _, f := range found {
		rule := ruleOf(f.field)
		doubts[rule] = append(doubts[rule], policy.Problem{Field: f.field, Msg: f.err.Error()})
	}
	for _, r := range resources {
		p, ok := r.(*policy.Policy)
		if !ok {
			continue
		}
		for _, rules := range [][]policy.Rule{p.Ingress, p.Egress} {
			for i := range rules {
				if len(rules[i].Doubts) == 0 {
					continue
				}
				rule := ruleOf(rules[i].Doubts[0].Field)
				if actionReported, was := replaced[rule]; was {
					rules[i].Doubts = slices.DeleteFunc(rules[i].Doubts, func(p policy.Problem) bool {
						return actionReported || p.Field != rule+".action"
					})
					rules[i].Close(doubts[rule]...)
				}
			}
		}
	}
}
