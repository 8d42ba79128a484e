// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"net/netip"
	"strings"

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
	// Field is the path of the object's rule, as in "spec.ingress[0]". If all rules of a direction
	// together are over a limit, one closed rule (see docs/glossary.md) takes their place. Field is
	// then the path of the direction, as in "spec.ingress".
	Field string `json:"field"`
	// Peers and Ports are the paths of the entries from which the rule was made, as in
	// "spec.ingress[0].from[1]". There may be several, because some entries are merged into one
	// rule: all ports of a protocol, and all ipBlocks that have no `except`. Empty means any peer
	// or any port, with two exceptions. Both fields are always empty for a closed rule (see
	// docs/glossary.md), and for a rule of a Calico object. A rule of a Calico object has no list
	// of peers.
	Peers []string `json:"peers,omitempty"`
	Ports []string `json:"ports,omitempty"`

	blocks  []netip.Prefix // the blocks of Peers, if all Peers are blocks of addresses
	numbers []policy.Port  // the ports of Ports, if each entry is one port
}

// Narrow returns the origin without the address blocks and ports that cannot match a packet from
// src to dst with the destination port. If all Peers are address blocks, it keeps those that
// contain src (for an ingress rule) or dst (for an egress rule). Otherwise it keeps all Peers. Of
// the ports, it keeps those that contain the destination port, and all named ports. If no block
// would be left, it keeps all blocks. If no port would be left, it keeps all ports.
func (o RuleOrigin) Narrow(src, dst netip.Addr, port uint16) RuleOrigin {
	peer := src
	if strings.HasPrefix(o.Field, "spec.egress") {
		peer = dst
	}
	o.Peers = narrow(o.Peers, o.blocks, func(block netip.Prefix) bool { return block.Contains(peer) })
	o.Ports = narrow(o.Ports, o.numbers, func(p policy.Port) bool {
		return p.Name != "" || p.First <= port && port <= p.Last
	})
	o.blocks, o.numbers = nil, nil
	return o
}

// narrow returns the paths whose values fit. If none fits, or if there is no value for each path,
// it returns all paths.
func narrow[T any](paths []string, values []T, fits func(T) bool) (left []string) {
	if len(values) != len(paths) {
		return paths
	}
	for i, value := range values {
		if fits(value) {
			left = append(left, paths[i])
		}
	}
	if len(left) == 0 {
		return paths
	}
	return left
}

// maxEntries is how many peers, and how many ports, RuleOrigin.String lists.
const maxEntries = 5

// String returns the paths without "spec.", as in "ingress[0].from[1], ports[0], ports[2]".
func (o RuleOrigin) String() string {
	var parts []string
	for _, entries := range [][]string{o.Peers, o.Ports} {
		for _, path := range entries[:min(len(entries), maxEntries)] {
			parts = append(parts, strings.TrimPrefix(path, o.Field+"."))
		}
		if more := len(entries) - maxEntries; more > 0 {
			parts = append(parts, fmt.Sprintf("%d more", more))
		}
	}
	rule := strings.TrimPrefix(o.Field, "spec.")
	if len(parts) == 0 {
		return rule
	}
	return rule + "." + strings.Join(parts, ", ")
}

// RuleOrigins returns the origin of each rule of a policy object: the part of the object from which
// the rule was made. The keys of the result are the IDs of the rules. Counters, logs and
// explanations contain these IDs. The object must be the version that was converted. The result is
// empty if the object does not become a policy, or cannot be converted.
func (c Converter) RuleOrigins(object metav1.Object) map[string]RuleOrigin {
	origins := map[string]RuleOrigin{}
	resources, _ := c.Convert(object)
	for _, r := range resources {
		p, ok := r.(*policy.Policy)
		if !ok {
			continue
		}
		of, _ := Origin(p.Key())
		of.UID = object.GetUID()
		for dir, rules := range map[policy.Type][]policy.Rule{policy.Ingress: p.Ingress, policy.Egress: p.Egress} {
			list := ruleOrigins(object, dir, len(rules))
			for i, id := range policy.RuleIDs(p.Key(), dir, rules) {
				list[i].Object = of
				origins[id] = list[i]
			}
		}
	}
	return origins
}

// ruleOrigins returns the origins of the n rules of a direction. Their field Object is not set.
func ruleOrigins(object metav1.Object, dir policy.Type, n int) []RuleOrigin {
	path := field.NewPath("spec", "ingress")
	if dir == policy.Egress {
		path = field.NewPath("spec", "egress")
	}
	discard := &problems{}
	groups := ruleGroups(discard, object, path, dir)
	rules := assemble(discard, path, dir, groups)
	origins := make([]RuleOrigin, 0, n)
	if len(rules) == len(joined(groups)) {
		for _, g := range groups {
			origins = append(origins, g.origins()...)
		}
	} else {
		origins = append(origins, RuleOrigin{Field: path.String()})
	}
	for i := len(origins); i < n; i++ { // Each rule of a Calico policy is made from one.
		origins = append(origins, RuleOrigin{Field: path.Index(i).String()})
	}
	return origins
}

// ruleGroups converts the rules of a direction. A rule of the object may become several rules,
// which are one group. For a kind in which each rule becomes exactly one rule, it returns nil.
func ruleGroups(discard *problems, object metav1.Object, path *field.Path, dir policy.Type) []ruleGroup {
	var spec *networkingv1.NetworkPolicySpec
	switch object := object.(type) {
	case *networkingv1.NetworkPolicy:
		spec = &object.Spec
	case *calico.StagedKubernetesNetworkPolicy:
		spec = &object.Spec.NetworkPolicySpec
	case *policyv1alpha2.ClusterNetworkPolicy:
		subject := clusterSubject(discard, nil, &object.Spec.Subject, &policy.Policy{})
		ingress, egress := clusterGroups(discard, &object.Spec, subject)
		if dir == policy.Ingress {
			return ingress
		}
		return egress
	default:
		return nil
	}
	if dir == policy.Ingress {
		return ingressGroups(discard, path, spec.Ingress)
	}
	return egressGroups(discard, path, spec.Egress)
}

// origins returns the origins of the group's rules. Their field Object is not set.
func (g *ruleGroup) origins() (list []RuleOrigin) {
	for i := range g.rules {
		o := RuleOrigin{Field: g.path.String()}
		if len(g.peers) > 0 {
			peer, ports := g.peers[i/len(g.ports)], g.ports[i%len(g.ports)]
			o.Peers, o.blocks = entryPaths(g.path.Child(g.peersField), peer.entries), peer.blocks
			o.Ports, o.numbers = entryPaths(g.path.Child(g.portsField), ports.entries), ports.ports
		}
		list = append(list, o)
	}
	return list
}

// entryPaths returns the paths of entries of a list.
func entryPaths(list *field.Path, entries []int) (paths []string) {
	for _, i := range entries {
		paths = append(paths, list.Index(i).String())
	}
	return paths
}
