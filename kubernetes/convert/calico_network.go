// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
)

// CalicoIPPool turns a Calico IPPool into a pool. What is about giving out addresses, or about BGP,
// has no part in it. Every error is an *Error; with one, there is no pool.
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

// CalicoNode turns a Calico Node into a node and into the network set of its addresses, as
// Converter.Node does with a Kubernetes Node. The addresses of spec.bgp, which come with the length
// of their subnet, stand first. An address of any sort, or a MAC address, that is none is left out
// alone and reported. Every error is an *Error.
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
		if text := f.calico(&node.Spec); text != "" {
			setNodeField(p, out, "spec."+f.member, text, f.set)
		}
	}
	resources := finishNode(p, out, nodeSet(node.Name, out.Labels, addresses),
		renamed("name", "metadata.name", "labels", "metadata.labels", "nets", "spec.addresses", "", "spec."))
	if p.any() {
		return nil, p.refused()
	}
	return resources, p.notes
}

// tunnelField is a field of a Node for its tunnels.
type tunnelField struct {
	// member of the spec of a Calico Node, and annotation of a Kubernetes Node.
	member, annotation string
	calico             func(spec *calico.NodeSpec) string
	set                func(p *problems, n *policy.Node, path, text string)
}

func tunnelFields() []tunnelField {
	return []tunnelField{
		{
			"ipv4VXLANTunnelAddr", "projectcalico.org/IPv4VXLANTunnelAddr",
			func(spec *calico.NodeSpec) string { return spec.IPv4VXLANTunnelAddr },
			func(p *problems, n *policy.Node, path, text string) {
				n.IPv4VXLANTunnelAddr = parseAddress(p, path, text)
			},
		},
		{
			"ipv6VXLANTunnelAddr", "projectcalico.org/IPv6VXLANTunnelAddr",
			func(spec *calico.NodeSpec) string { return spec.IPv6VXLANTunnelAddr },
			func(p *problems, n *policy.Node, path, text string) {
				n.IPv6VXLANTunnelAddr = parseAddress(p, path, text)
			},
		},
		{
			"bgp.ipv4IPIPTunnelAddr", "projectcalico.org/IPv4IPIPTunnelAddr",
			func(spec *calico.NodeSpec) string {
				if spec.BGP == nil {
					return ""
				}
				return spec.BGP.IPv4IPIPTunnelAddr
			},
			func(p *problems, n *policy.Node, path, text string) {
				n.IPv4IPIPTunnelAddr = parseAddress(p, path, text)
			},
		},
		{
			"vxlanTunnelMACAddr", "projectcalico.org/VXLANTunnelMACAddr",
			func(spec *calico.NodeSpec) string { return spec.VXLANTunnelMACAddr },
			func(p *problems, n *policy.Node, path, text string) { n.VXLANTunnelMACAddr = parseMAC(p, path, text) },
		},
		{
			"vxlanTunnelMACAddrV6", "projectcalico.org/VXLANTunnelMACAddrV6",
			func(spec *calico.NodeSpec) string { return spec.VXLANTunnelMACAddrV6 },
			func(p *problems, n *policy.Node, path, text string) { n.VXLANTunnelMACAddrV6 = parseMAC(p, path, text) },
		},
	}
}
