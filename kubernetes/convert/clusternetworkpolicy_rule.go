// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// clusterRule is a rule of a ClusterNetworkPolicy, of either direction.
type clusterRule struct {
	path       *field.Path
	peersField string
	egress     bool
	name       string
	action     policyv1alpha2.ClusterNetworkPolicyRuleAction
	peers      []policyv1alpha2.ClusterNetworkPolicyEgressPeer
	protocols  []policyv1alpha2.ClusterNetworkPolicyProtocol
	subject    policy.EntityRule
}

// convert converts the rule to one rule for each pair of a peer and a protocol. Its errors are
// added to the doubts, and the rule fails closed. A rule with an unknown action counts as a Deny
// rule. The function put makes a rule from the side of the subject, the side of the peer and the
// destination ports.
func (r *clusterRule) convert(
	doubts *problems, put func(subject, peer policy.EntityRule, ports []policy.Port) policy.Rule,
) ruleGroup {
	before := len(doubts.list)
	action, ok := clusterAction(r.action)
	if !ok {
		action = policy.Deny
		doubts.addf(r.path.Child("action").String(), "want Accept, Deny or Pass, not %q", r.action)
	}
	group := ruleGroup{
		path: r.path, peersField: r.peersField, portsField: "protocols",
		closed: policy.Rule{Action: action, Metadata: ruleMetadata(r.name, failClosed(action))},
	}
	peers := r.convertPeers(doubts, action)
	ports := r.convertProtocols(doubts)
	if len(doubts.list) > before {
		group.close(doubts.list[before:])
		return group
	}
	subject := policy.EntityRule{}
	if action != policy.Deny {
		subject = r.subject
	}
	group.cross(peers, ports, func(peer policy.EntityRule, ports []policy.Port) policy.Rule {
		return put(subject, peer, ports)
	})
	for i := range group.rules {
		group.rules[i].Action, group.rules[i].Metadata = action, ruleMetadata(r.name, "")
	}
	return group
}

// failClosed returns the reason why a closed rule denies, or "" if it does not deny.
func failClosed(action policy.Action) string {
	if action == policy.Allow {
		return ""
	}
	return "this " + string(action) + " rule was not understood: it denies everything"
}

func clusterAction(action policyv1alpha2.ClusterNetworkPolicyRuleAction) (policy.Action, bool) {
	switch action {
	case policyv1alpha2.ClusterNetworkPolicyRuleActionAccept:
		return policy.Allow, true
	case policyv1alpha2.ClusterNetworkPolicyRuleActionDeny:
		return policy.Deny, true
	case policyv1alpha2.ClusterNetworkPolicyRuleActionPass:
		return policy.Pass, true
	}
	return "", false
}

// convertPeers converts the peers.
func (r *clusterRule) convertPeers(p *problems, action policy.Action) []rulePeer {
	path := r.path.Child(r.peersField)
	if len(r.peers) == 0 {
		p.addf(path.String(), "want at least one peer")
	}
	peers := make([]rulePeer, len(r.peers))
	for i := range r.peers {
		peers[i] = rulePeer{EntityRule: clusterPeer(p, path.Index(i), &r.peers[i], action), entries: []int{i}}
	}
	return peers
}

// clusterPeer converts one peer. Pods on the host's network are not endpoints, so a peer by pods
// does not match them. Their addresses are those of their node.
func clusterPeer(
	p *problems, path *field.Path, peer *policyv1alpha2.ClusterNetworkPolicyEgressPeer, action policy.Action,
) policy.EntityRule {
	given := 0
	for _, set := range []bool{
		peer.Namespaces != nil, peer.Pods != nil, peer.Nodes != nil, len(peer.Networks) > 0, len(peer.DomainNames) > 0,
	} {
		if set {
			given++
		}
	}
	switch {
	case given == 0:
		p.addf(path.String(), "want a peer with a known field")
	case given > 1:
		p.addf(path.String(), "a peer with more than one of its fields")
	case peer.Namespaces != nil:
		return policy.EntityRule{
			Selector:          podSelectorText(p, path, selector.All()),
			NamespaceSelector: clusterNamespaces(p, path.Child("namespaces"), peer.Namespaces, action),
		}
	case peer.Pods != nil:
		pods, namespaces := path.Child("pods", "podSelector"), path.Child("pods", "namespaceSelector")
		return policy.EntityRule{
			Selector:          podSelectorText(p, pods, podSelector(p, pods, &peer.Pods.PodSelector)),
			NamespaceSelector: clusterNamespaces(p, namespaces, &peer.Pods.NamespaceSelector, action),
		}
	case peer.Nodes != nil:
		nodes := labelSelector(p, path.Child("nodes"), peer.Nodes)
		return policy.EntityRule{Selector: selectorText(p, path.Child("nodes"), nodeSelector(nodes))}
	case len(peer.Networks) > 0:
		return policy.EntityRule{Nets: clusterNetworks(p, path.Child("networks"), peer.Networks)}
	default:
		p.add(path.Child("domainNames").String(), ErrNotSupported)
	}
	return policy.EntityRule{}
}

// clusterNamespaces converts a selector over namespaces. In an Accept or Pass rule, a condition
// that a label is absent does not match a namespace whose labels are unknown. In a Deny rule, it
// does.
func clusterNamespaces(p *problems, path *field.Path, s *metav1.LabelSelector, action policy.Action) string {
	namespaces := labelSelector(p, path, s)
	if known := knownNamespace(s); namespaces != nil && action != policy.Deny && known != nil {
		namespaces = selector.And(known, namespaces)
	}
	return selectorText(p, path, namespaces)
}

func clusterNetworks(p *problems, path *field.Path, list []policyv1alpha2.CIDR) policy.Nets {
	var nets policy.Nets
	for i, text := range list {
		if cidr, ok := parseCIDR(p, path.Index(i), string(text)); ok {
			nets = append(nets, cidr)
		}
	}
	return nets
}

// convertProtocols converts the protocols, grouped in order of appearance. A port number has the
// protocol of its entry, a port name the protocol of the port that it names. Without protocols, the
// result is any protocol and any port.
func (r *clusterRule) convertProtocols(p *problems) []protocolPorts {
	path := r.path.Child("protocols")
	if r.protocols == nil {
		return []protocolPorts{{}}
	}
	if len(r.protocols) == 0 {
		p.addf(path.String(), "want at least one protocol; leave the field out for any protocol")
	}
	var groups portGroups
	for i := range r.protocols {
		at := path.Index(i)
		protocol, ports, ok := clusterProtocol(p, at, &r.protocols[i])
		if !ok {
			continue
		}
		groups.add(i, protocol, ports)
		named := r.protocols[i].DestinationNamedPort != ""
		if named && r.egress && slices.ContainsFunc(r.peers, nameless) {
			p.addf(at.Child("destinationNamedPort").String(),
				"peers by nodes, networks and domainNames have no named ports")
		}
	}
	return groups.list()
}

// nameless reports whether the peer cannot have named ports.
func nameless(peer policyv1alpha2.ClusterNetworkPolicyEgressPeer) bool {
	return peer.Nodes != nil || len(peer.Networks) > 0 || len(peer.DomainNames) > 0
}

// clusterProtocol converts one entry. Without ports, the result is every port of the protocol.
func clusterProtocol(
	p *problems, path *field.Path, entry *policyv1alpha2.ClusterNetworkPolicyProtocol,
) (policy.Protocol, []policy.Port, bool) {
	given := 0
	for _, set := range []bool{
		entry.TCP != nil, entry.UDP != nil, entry.SCTP != nil, entry.DestinationNamedPort != "",
	} {
		if set {
			given++
		}
	}
	if given != 1 {
		p.addf(path.String(), "want exactly one of tcp, udp, sctp and destinationNamedPort")
		return 0, nil, false
	}
	var protocol policy.Protocol
	var port *policyv1alpha2.Port
	switch {
	case entry.TCP != nil:
		protocol, port, path = policy.ProtocolTCP, entry.TCP.DestinationPort, path.Child("tcp")
	case entry.UDP != nil:
		protocol, port, path = policy.ProtocolUDP, entry.UDP.DestinationPort, path.Child("udp")
	case entry.SCTP != nil:
		protocol, port, path = policy.ProtocolSCTP, entry.SCTP.DestinationPort, path.Child("sctp")
	default:
		name := entry.DestinationNamedPort
		if msgs := validation.IsValidPortName(name); len(msgs) > 0 {
			p.addf(path.Child("destinationNamedPort").String(), "not a port name: %s", strings.Join(msgs, "; "))
			return 0, nil, false
		}
		return 0, []policy.Port{policy.PortName(name)}, true
	}
	if port == nil {
		return protocol, nil, true
	}
	converted, err := clusterPort(port)
	if err != nil {
		p.add(path.Child("destinationPort").String(), err)
		return 0, nil, false
	}
	return protocol, []policy.Port{converted}, true
}

func clusterPort(port *policyv1alpha2.Port) (policy.Port, error) {
	first, last := port.Number, port.Number
	if port.Range != nil {
		if port.Number != 0 {
			return policy.Port{}, errors.New("want either number or range, not both")
		}
		first, last = port.Range.Start, port.Range.End
	}
	switch {
	case first < 1 || first > 65535 || last < 1 || last > 65535:
		return policy.Port{}, errors.New("ports are 1 to 65535")
	case last < first:
		return policy.Port{}, errors.New("the end of the range is smaller than its start")
	}
	return policy.PortRange(uint16(first), uint16(last)), nil
}
