// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// RuleOrigin is the part of an API object from which a Converter made a rule.
type RuleOrigin struct {
	Object Object `json:"object"`
	// Field is the path of the object's rule, as in "spec.ingress[0]". If one closed rule takes the place of
	// all rules of a direction, it is the path of the direction, "spec.ingress".
	Field string `json:"field"`
	// Peers and Ports are the paths of the entries that the rule was made from, as in "spec.ingress[0].from[1]".
	// Blocks of addresses and the ports of one protocol share a rule, so there may be several. Empty means any
	// peer or any port, a closed rule, or a Calico object, in which a rule has one peer.
	Peers []string `json:"peers,omitempty"`
	Ports []string `json:"ports,omitempty"`
}

// RuleOrigin returns the part of a policy object from which the rule with this ID was made. Counters, logs and
// explanations have such IDs. The object is a NetworkPolicy, a ClusterNetworkPolicy or a Calico policy that is
// not staged, in the version that was converted.
//
// ok is false for an object of another kind, one that cannot be converted, and one without such a rule, for
// example because it was changed since.
func (c Converter) RuleOrigin(object metav1.Object, id string) (o RuleOrigin, ok bool) {
	switch object := object.(type) {
	case *networkingv1.NetworkPolicy:
		p, _ := c.NetworkPolicy(object)
		return groupOrigin(p, id, object, func(discard *problems, path *field.Path, dir policy.Type) []ruleGroup {
			if dir == policy.Ingress {
				return ingressGroups(discard, path, object.Spec.Ingress)
			}
			return egressGroups(discard, path, object.Spec.Egress)
		})
	case *policyv1alpha2.ClusterNetworkPolicy:
		p, _ := c.ClusterNetworkPolicy(object)
		return groupOrigin(p, id, object, func(discard *problems, _ *field.Path, dir policy.Type) []ruleGroup {
			subject := clusterSubject(discard, nil, &object.Spec.Subject, &policy.Policy{})
			ingress, egress := clusterGroups(discard, &object.Spec, subject)
			if dir == policy.Ingress {
				return ingress
			}
			return egress
		})
	case *calico.NetworkPolicy, *calico.GlobalNetworkPolicy:
		return calicoOrigin(c, object, id)
	default:
		return RuleOrigin{}, false
	}
}

// groupOrigin finds a rule of a policy in the groups of its direction.
func groupOrigin(
	p *policy.Policy, id string, object metav1.Object,
	groups func(discard *problems, path *field.Path, dir policy.Type) []ruleGroup,
) (o RuleOrigin, ok bool) {
	path, dir, index, ok := findRule(p, id)
	if !ok {
		return RuleOrigin{}, false
	}
	o = RuleOrigin{Object: objectOf(p, object), Field: path.String()}
	discard := &problems{}
	list := groups(discard, path, dir)
	if rules := assemble(discard, path, dir, list); len(rules) != len(joined(list)) {
		return o, true
	}
	for _, g := range list {
		if index >= len(g.rules) {
			index -= len(g.rules)
			continue
		}
		o.Field = g.path.String()
		if len(g.peers) > 0 {
			o.Peers = entryPaths(g.path.Child(g.peersField), g.peers[index/len(g.ports)].entries)
			o.Ports = entryPaths(g.path.Child(g.portsField), g.ports[index%len(g.ports)].entries)
		}
		return o, true
	}
	return RuleOrigin{}, false
}

// calicoOrigin finds a rule of a Calico policy, each of which is made from one rule.
func calicoOrigin(c Converter, object metav1.Object, id string) (o RuleOrigin, ok bool) {
	resources, _ := c.Convert(object)
	for _, r := range resources {
		p, _ := r.(*policy.Policy)
		if path, _, index, ok := findRule(p, id); ok {
			return RuleOrigin{Object: objectOf(p, object), Field: path.Index(index).String()}, true
		}
	}
	return RuleOrigin{}, false
}

// findRule returns the direction of a rule, with its path, and its index in the policy. p may be nil.
func findRule(p *policy.Policy, id string) (path *field.Path, dir policy.Type, index int, ok bool) {
	if p == nil {
		return nil, "", 0, false
	}
	dir, index, ok = p.FindRule(id)
	path = field.NewPath("spec", "ingress")
	if dir == policy.Egress {
		path = field.NewPath("spec", "egress")
	}
	return path, dir, index, ok
}

// objectOf returns the object that the policy was made from.
func objectOf(p *policy.Policy, object metav1.Object) Object {
	o, _ := Origin(p.Key())
	o.UID = object.GetUID()
	return o
}

// entryPaths returns the paths of entries of a list.
func entryPaths(list *field.Path, entries []int) (paths []string) {
	for _, i := range entries {
		paths = append(paths, list.Index(i).String())
	}
	return paths
}
