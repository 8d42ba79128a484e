// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
)

// CalicoIPPool converts a Calico IPPool to a pool. Fields for BGP and for the assignment of
// addresses have no effect. If there is an error, there is no pool. Every error is an *Error.
func (c Converter) CalicoIPPool(pool *calico.IPPool) (*policy.IPPool, []error) {
	p, _ := begin(calico.APIVersion, "IPPool", pool, false)
	p.unsupported("spec.ipip", bool(pool.Spec.IPIP))
	p.unsupported("spec.nat-outgoing", bool(pool.Spec.OldNATOutgoing))
	cidr, err := policy.ParseNet(pool.Spec.CIDR)
	if err != nil {
		p.add("spec.cidr", err)
	}
	return finish(&policy.IPPool{
		Name:        pool.Name,
		CIDR:        cidr,
		VXLANMode:   policy.EncapMode(pool.Spec.VXLANMode),
		IPIPMode:    policy.EncapMode(pool.Spec.IPIPMode),
		NATOutgoing: pool.Spec.NATOutgoing,
		Disabled:    pool.Spec.Disabled,
	}, p, inSpec())
}

// CalicoNode converts a Calico Node to a node, and to a network set with the node's addresses.
// Converter.Node does the same for a Kubernetes Node.
//
// The node has the addresses in spec.bgp, followed by those in spec.addresses. If both fields have
// the same address, the node has the address as it is in spec.bgp. There, the address has the
// prefix length of its subnet. An invalid address or MAC address is left out and reported. Every
// error is an *Error.
func (c Converter) CalicoNode(node *calico.Node) ([]policy.Resource, []error) {
	p, _ := begin(calico.APIVersion, "Node", node, false)
	checkLabels(p, node.Labels)
	var addresses []netip.Prefix
	if bgp := node.Spec.BGP; bgp != nil {
		for _, a := range []struct{ field, text string }{
			{"ipv4Address", bgp.IPv4Address}, {"ipv6Address", bgp.IPv6Address},
		} {
			if a.text != "" {
				addresses = appendNodeAddress(p, addresses, "spec.bgp."+a.field, a.text)
			}
		}
	}
	for i, a := range node.Spec.Addresses {
		switch a.Type {
		case "", "InternalIP", "ExternalIP", "CalicoNodeIP":
			addresses = appendNodeAddress(p, addresses, fmt.Sprintf("spec.addresses[%d].address", i), a.Address)
		}
	}
	out := &policy.Node{Name: node.Name, Addresses: fewAddresses(p, addresses), Labels: fewLabels(p, node.Labels)}
	for _, f := range tunnelFields() {
		if f.path == "" {
			continue
		}
		if text := f.calico(node); text != "" {
			setNodeField(p, out, f.path, text, f)
		}
	}
	resources := finishNode(p, out, nodeSet(out, addresses),
		renamed("name", "metadata.name", "labels", "metadata.labels", "nets", "spec.addresses", "", "spec."))
	if p.any() {
		return nil, p.refused()
	}
	return resources, p.warnings
}

// tunnelField is a field of a Node for its tunnels.
type tunnelField struct {
	// path is the path of the field in a Calico Node. It is empty if a Calico Node has no such
	// field. annotation is the annotation of a Kubernetes Node with the field.
	path, annotation string
	calico           func(n *calico.Node) string
	set              func(p *problems, n *policy.Node, path, text string)
	// refused is called instead of set if the text is invalid. Nil leaves the field unchanged.
	refused func(n *policy.Node)
}

// setUnreadableKeys sets one zero key, for WireGuard keys that cannot be read. Without any keys,
// other nodes would send packets to the node unencrypted.
func setUnreadableKeys(n *policy.Node) { n.WireguardKeys = []policy.WireguardKey{{}} }

// tunnelFields returns all tunnel fields. A later field may overwrite an earlier one.
func tunnelFields() []tunnelField {
	address := func(field func(*policy.Node) *netip.Addr) func(*problems, *policy.Node, string, string) {
		return func(p *problems, n *policy.Node, path, text string) { *field(n) = parseAddress(p, path, text) }
	}
	return []tunnelField{
		{
			"spec.ipv4VXLANTunnelAddr", "projectcalico.org/IPv4VXLANTunnelAddr",
			func(n *calico.Node) string { return n.Spec.IPv4VXLANTunnelAddr },
			address(func(n *policy.Node) *netip.Addr { return &n.IPv4VXLANTunnelAddr }),
			nil,
		},
		{
			"spec.ipv6VXLANTunnelAddr", "projectcalico.org/IPv6VXLANTunnelAddr",
			func(n *calico.Node) string { return n.Spec.IPv6VXLANTunnelAddr },
			address(func(n *policy.Node) *netip.Addr { return &n.IPv6VXLANTunnelAddr }),
			nil,
		},
		{
			"spec.bgp.ipv4IPIPTunnelAddr", "projectcalico.org/IPv4IPIPTunnelAddr",
			func(n *calico.Node) string {
				if n.Spec.BGP == nil {
					return ""
				}
				return n.Spec.BGP.IPv4IPIPTunnelAddr
			},
			address(func(n *policy.Node) *netip.Addr { return &n.IPv4IPIPTunnelAddr }),
			nil,
		},
		{
			"spec.wireguard.interfaceIPv4Address", "projectcalico.org/IPv4WireguardInterfaceAddr",
			func(n *calico.Node) string { return n.Spec.Wireguard.InterfaceIPv4Address },
			address(func(n *policy.Node) *netip.Addr { return &n.IPv4WireguardAddr }),
			nil,
		},
		{
			"spec.wireguard.interfaceIPv6Address", "projectcalico.org/IPv6WireguardInterfaceAddr",
			func(n *calico.Node) string { return n.Spec.Wireguard.InterfaceIPv6Address },
			address(func(n *policy.Node) *netip.Addr { return &n.IPv6WireguardAddr }),
			nil,
		},
		{
			"status.wireguardPublicKey", "projectcalico.org/WireguardPublicKey",
			func(n *calico.Node) string { return n.Status.WireguardPublicKey },
			func(_ *problems, n *policy.Node, _, text string) {
				n.WireguardKeys = []policy.WireguardKey{{PublicKey: text, Port: calicoWireguardPort}}
			},
			setUnreadableKeys,
		},
		{"", AnnotationWireguardKeys, nil, setWireguardKeys, setUnreadableKeys},
		{
			"spec.vxlanTunnelMACAddr", "projectcalico.org/VXLANTunnelMACAddr",
			func(n *calico.Node) string { return n.Spec.VXLANTunnelMACAddr },
			func(p *problems, n *policy.Node, path, text string) { n.VXLANTunnelMACAddr = parseMAC(p, path, text) },
			nil,
		},
		{
			"spec.vxlanTunnelMACAddrV6", "projectcalico.org/VXLANTunnelMACAddrV6",
			func(n *calico.Node) string { return n.Spec.VXLANTunnelMACAddrV6 },
			func(p *problems, n *policy.Node, path, text string) { n.VXLANTunnelMACAddrV6 = parseMAC(p, path, text) },
			nil,
		},
	}
}

// AnnotationWireguardKeys is the annotation of a Kubernetes Node with the node's WireGuard keys.
// The keys are separated by commas, and have the format of policy.WireguardKey.String. Calico's
// annotation with a key is used only if this annotation is missing. An empty annotation is invalid:
// other nodes then drop packets to the node.
const AnnotationWireguardKeys = "wayleave.dev/wireguard-keys"

// NoWireguardKeys is the value of AnnotationWireguardKeys for a node that does not encrypt.
// Calico's annotation is then ignored: it may contain an old key, and the node could not decrypt
// packets that other nodes encrypt with this key.
const NoWireguardKeys = "none"

// calicoWireguardPort is Calico's default of wireguardListeningPort.
const calicoWireguardPort = 51820

// setWireguardKeys sets the keys of AnnotationWireguardKeys.
func setWireguardKeys(p *problems, n *policy.Node, path, text string) {
	n.WireguardKeys = nil
	if strings.TrimSpace(text) == NoWireguardKeys {
		return
	}
	for part := range strings.SplitSeq(text, ",") {
		key, err := policy.ParseWireguardKey(part)
		if err != nil {
			p.add(path, err)
		}
		n.WireguardKeys = append(n.WireguardKeys, key)
	}
}
