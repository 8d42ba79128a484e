// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// protocolPorts are the ports of one protocol in a rule. No ports means all of them; protocol 0
// means any protocol.
type protocolPorts struct {
	protocol policy.Protocol
	ports    []policy.Port
	entries  []int // indices of the entries in the rule's list
}

// rulePeer is a peer of a rule.
type rulePeer struct {
	policy.EntityRule
	entries []int          // indices of the entries in the rule's list
	blocks  []netip.Prefix // of the entries, if they share a rule
}

// rulePeers converts the peers of a rule. No peers means any peer. Blocks without exceptions become
// one peer.
func rulePeers(p *problems, path *field.Path, list []networkingv1.NetworkPolicyPeer) []rulePeer {
	if len(list) == 0 {
		return []rulePeer{{}}
	}
	var peers []rulePeer
	blocks := -1 // index in peers of the blocks
	for i := range list {
		peer := rulePeer{EntityRule: onePeer(p, path.Index(i), list[i]), entries: []int{i}}
		switch {
		case len(peer.Nets) == 0 || len(peer.NotNets) > 0:
			peers = append(peers, peer)
		case blocks < 0:
			blocks, peer.blocks = len(peers), slices.Clone(peer.Nets)
			peers = append(peers, peer)
		default:
			all := &peers[blocks]
			all.entries, all.blocks = append(all.entries, i), append(all.blocks, peer.Nets[0])
			if !slices.Contains(all.Nets, peer.Nets[0]) {
				all.Nets = append(all.Nets, peer.Nets[0])
			}
		}
	}
	return peers
}

// onePeer converts one peer: an ipBlock, or selectors.
func onePeer(p *problems, path *field.Path, peer networkingv1.NetworkPolicyPeer) policy.EntityRule {
	selects := peer.PodSelector != nil || peer.NamespaceSelector != nil
	switch {
	case peer.IPBlock != nil && selects:
		p.addf(path.String(), "a peer has either an ipBlock or selectors, not both")
	case peer.IPBlock != nil:
		return ipBlock(p, path.Child("ipBlock"), peer.IPBlock)
	case !selects:
		p.addf(path.String(), "an empty peer: want podSelector, namespaceSelector or ipBlock")
	default:
		return selectedPeer(p, path, peer)
	}
	return policy.EntityRule{}
}

// selectedPeer converts a peer with selectors. Without a namespaceSelector, it matches the policy's
// own namespace, as the selectors of every namespaced policy do.
func selectedPeer(p *problems, path *field.Path, peer networkingv1.NetworkPolicyPeer) policy.EntityRule {
	pods := selector.All()
	if peer.PodSelector != nil {
		pods = podSelector(p, path.Child("podSelector"), peer.PodSelector)
	}
	if peer.NamespaceSelector == nil {
		return policy.EntityRule{Selector: podSelectorText(p, path.Child("podSelector"), pods)}
	}
	namespaces := labelSelector(p, path.Child("namespaceSelector"), peer.NamespaceSelector)
	if known := knownNamespace(peer.NamespaceSelector); namespaces != nil && known != nil {
		// A condition that a label is absent must not match a namespace whose labels are unknown.
		namespaces = selector.And(known, namespaces)
	}
	return policy.EntityRule{
		Selector:          podSelectorText(p, path.Child("podSelector"), pods),
		NamespaceSelector: selectorText(p, path.Child("namespaceSelector"), namespaces),
	}
}

// ipBlock converts a block of addresses. Exceptions outside of the block have no effect and are
// left out.
func ipBlock(p *problems, path *field.Path, block *networkingv1.IPBlock) policy.EntityRule {
	cidr, ok := parseCIDR(p, path.Child("cidr"), block.CIDR)
	if !ok {
		return policy.EntityRule{}
	}
	peer := policy.EntityRule{Nets: policy.Nets{cidr}}
	for i, text := range block.Except {
		except, ok := parseCIDR(p, path.Child("except").Index(i), text)
		if ok && except.Overlaps(cidr) {
			peer.NotNets = append(peer.NotNets, except)
		}
	}
	return peer
}

// parseCIDR parses an address with a prefix length. It refuses an IPv4 prefix in IPv6 form: it is
// unclear which family is meant.
func parseCIDR(p *problems, path *field.Path, text string) (netip.Prefix, bool) {
	if !strings.Contains(text, "/") {
		p.addf(path.String(), "%q is not a CIDR: want an address and a prefix length, as in 10.1.0.0/16", text)
		return netip.Prefix{}, false
	}
	if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr().Is4In6() {
		p.addf(path.String(), "%q is an IPv4 prefix in IPv6 form: write it as IPv4", text)
		return netip.Prefix{}, false
	}
	cidr, err := policy.ParseNet(text)
	if err != nil {
		p.add(path.String(), err)
	}
	return cidr, err == nil
}

// rulePorts converts the ports of a rule, grouped by protocol in order of appearance. No ports
// means any protocol and any port.
func rulePorts(p *problems, path *field.Path, list []networkingv1.NetworkPolicyPort) []protocolPorts {
	if len(list) == 0 {
		return []protocolPorts{{}}
	}
	var groups portGroups
	for i, entry := range list {
		if protocol, ports := rulePort(p, path.Index(i), entry); protocol != 0 {
			groups.add(i, protocol, ports)
		}
	}
	return groups.list()
}

// portGroups collects ports by protocol, in order of appearance.
type portGroups struct {
	groups []protocolPorts
	every  []bool // by index of the group: whether it means every port of its protocol
}

// add adds the ports of a protocol in an entry; none means every port.
func (g *portGroups) add(entry int, protocol policy.Protocol, ports []policy.Port) {
	at := slices.IndexFunc(g.groups, func(have protocolPorts) bool { return have.protocol == protocol })
	if at < 0 {
		at = len(g.groups)
		g.groups, g.every = append(g.groups, protocolPorts{protocol: protocol}), append(g.every, false)
	}
	g.every[at] = g.every[at] || len(ports) == 0
	g.groups[at].ports = append(g.groups[at].ports, ports...)
	g.groups[at].entries = append(g.groups[at].entries, entry)
}

// list returns the groups.
func (g *portGroups) list() []protocolPorts {
	for i := range g.groups {
		if g.every[i] {
			g.groups[i].ports = nil
		}
	}
	return g.groups
}

// rulePort converts one entry. It returns protocol 0 and reports an invalid entry. No ports means
// every port of the protocol.
func rulePort(p *problems, path *field.Path, entry networkingv1.NetworkPolicyPort) (policy.Protocol, []policy.Port) {
	protocol := policy.ProtocolTCP
	if entry.Protocol != nil {
		var ok bool
		if protocol, ok = kubernetesProtocol(*entry.Protocol); !ok || *entry.Protocol == "" {
			p.addf(path.Child("protocol").String(), "%q is not TCP, UDP or SCTP", *entry.Protocol)
			return 0, nil
		}
	}
	if entry.Port == nil {
		if entry.EndPort != nil {
			p.addf(path.Child("endPort").String(), "endPort needs a port")
			return 0, nil
		}
		return protocol, nil
	}
	port, wrong, err := portRange(*entry.Port, entry.EndPort)
	if err != nil {
		p.add(path.Child(wrong).String(), err)
		return 0, nil
	}
	return protocol, []policy.Port{port}
}

// portRange converts port and endPort to one port. With an error, it returns the name of the
// invalid field.
func portRange(port intstr.IntOrString, end *int32) (policy.Port, string, error) {
	if port.Type == intstr.String {
		if end != nil {
			return policy.Port{}, "endPort", errors.New("endPort needs a port number")
		}
		if msgs := validation.IsValidPortName(port.StrVal); len(msgs) > 0 {
			return policy.Port{}, "port", errors.New("not a port name: " + strings.Join(msgs, "; "))
		}
		return policy.PortName(port.StrVal), "", nil
	}
	first, last := port.IntVal, port.IntVal
	if end != nil {
		last = *end
	}
	switch {
	case first < 1 || first > 65535:
		return policy.Port{}, "port", errors.New("ports are 1 to 65535")
	case last < 1 || last > 65535:
		return policy.Port{}, "endPort", errors.New("ports are 1 to 65535")
	case last < first:
		return policy.Port{}, "endPort", errors.New("endPort is smaller than port")
	}
	return policy.PortRange(uint16(first), uint16(last)), "", nil
}
