// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"maps"
	"net/netip"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
)

// CalicoIPPool turns a Calico IPPool into a pool. What is about giving out addresses, or about BGP, has
// no part in it. Every error is an *Error; with one, there is no pool.
func (c Converter) CalicoIPPool(pool *calico.IPPool) (*policy.IPPool, []error) {
	p, _ := begin("IPPool", pool, false)
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
// Converter.Node does with a Kubernetes Node. The addresses of spec.bgp, which come with the length of their
// subnet, stand first. Every error is an *Error; with one, there is neither.
func (c Converter) CalicoNode(node *calico.Node) ([]policy.Resource, []error) {
	p, _ := begin("Node", node, false)
	checkLabels(p, node.Labels)
	var addresses []netip.Prefix
	if bgp := node.Spec.BGP; bgp != nil {
		for _, a := range []struct{ field, text string }{{"ipv4Address", bgp.IPv4Address}, {"ipv6Address", bgp.IPv6Address}} {
			if a.text != "" {
				addresses = appendSubnet(p, addresses, "spec.bgp."+a.field, a.text)
			}
		}
	}
	for i, a := range node.Spec.Addresses {
		switch a.Type {
		case "", "InternalIP", "ExternalIP", "CalicoNodeIP":
			addresses = appendSubnet(p, addresses, fmt.Sprintf("spec.addresses[%d].address", i), a.Address)
		}
	}
	out := &policy.Node{Name: node.Name, Addresses: addresses, Labels: maps.Clone(node.Labels)}
	address := func(field, text string) (a netip.Addr) {
		if text != "" {
			a = parseAddress(p, "spec."+field, text)
		}
		return a
	}
	out.IPv4VXLANTunnelAddr = address("ipv4VXLANTunnelAddr", node.Spec.IPv4VXLANTunnelAddr)
	out.IPv6VXLANTunnelAddr = address("ipv6VXLANTunnelAddr", node.Spec.IPv6VXLANTunnelAddr)
	mac := func(field, text string) string {
		if text == "" {
			return ""
		}
		return parseMAC(p, "spec."+field, text)
	}
	out.VXLANTunnelMACAddr = mac("vxlanTunnelMACAddr", node.Spec.VXLANTunnelMACAddr)
	out.VXLANTunnelMACAddrV6 = mac("vxlanTunnelMACAddrV6", node.Spec.VXLANTunnelMACAddrV6)
	resources := finishNode(p, out, nodeSet(node.Name, node.Labels, addresses),
		renamed("name", "metadata.name", "labels", "metadata.labels", "nets", "spec.addresses", "", "spec."))
	if p.any() {
		return nil, p.list
	}
	return resources, nil
}
