// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
)

// Annotations in which Calico writes a node's addresses, with the prefix lengths of their subnets.
// tunnelFields has Calico's other annotations.
const (
	annotationIPv4 = "projectcalico.org/IPv4Address"
	annotationIPv6 = "projectcalico.org/IPv6Address"
)

// Node converts a Kubernetes Node to a node, and to a network set with the node's addresses. Rules
// select nodes by the labels of this set (see NodeLabelPrefix). With Converter.PodCIDRs, Node also
// returns a block for each pod CIDR.
//
// The data of the node comes from these fields:
//
//   - Addresses: those of type InternalIP in the status, and then those of type ExternalIP, with
//     the full prefix length. Host names in the status are ignored. If the Node has Calico's
//     annotations projectcalico.org/IPv4Address or .../IPv6Address, their addresses come first,
//     with the prefix length of their subnet.
//   - Addresses of tunnel devices: Calico's annotations. For Nodes without these annotations, set
//     Converter.PodCIDRTunnels, Converter.PodCIDRIPIP or Converter.PodCIDRWireguard.
//   - Keys of WireGuard devices: the annotation AnnotationWireguardKeys, or Calico's.
//
// An invalid address, annotation or pod CIDR is left out and reported. The rest of the Node is
// converted, because rules that deny the node need the network set. If the WireGuard keys cannot be
// read, the node gets one zero policy.WireguardKey: other nodes then drop packets to the node.
// Without any key, they would send the packets unencrypted. Every error is an *Error.
func (c Converter) Node(node *corev1.Node) ([]policy.Resource, []error) {
	p, _ := begin(coreVersion, "Node", node, false)
	checkLabels(p, node.Labels)
	addresses := nodeAddresses(p, node)
	var own []netip.Prefix
	for _, key := range []string{annotationIPv4, annotationIPv6} {
		if text := node.Annotations[key]; text != "" {
			own = appendNodeAddress(p, own, annotationPath(key), text)
		}
	}
	for _, a := range addresses {
		own = addSubnet(own, a)
	}
	out := &policy.Node{Name: node.Name, Addresses: fewAddresses(p, own), Labels: fewLabels(p, node.Labels)}
	for _, f := range tunnelFields() {
		text, found := node.Annotations[f.annotation]
		// Otherwise an empty annotation would leave traffic unencrypted.
		if text != "" || found && f.annotation == AnnotationWireguardKeys {
			setNodeField(p, out, annotationPath(f.annotation), text, f)
		}
	}
	if c.PodCIDRTunnels {
		addPodTunnels(out, node, vxlanAddress)
	}
	if c.PodCIDRIPIP {
		addPodTunnels(out, node, ipipAddress)
	}
	if c.PodCIDRWireguard {
		addPodTunnels(out, node, wireguardAddress)
	}
	resources := finishNode(p, out, nodeSet(out, addresses),
		renamed("name", "metadata.name", "labels", "metadata.labels"))
	if p.any() {
		return nil, p.refused()
	}
	if c.PodCIDRs {
		resources = append(resources, podBlocks(p, node)...)
	}
	return resources, p.warnings
}

// setNodeField sets one field of the node. If the text is invalid, it reports an error instead.
func setNodeField(p *problems, node *policy.Node, path, text string, field tunnelField) {
	wrong, probe := &problems{object: p.object}, &policy.Node{Name: "probe"}
	field.set(wrong, probe, path, text)
	if err := refusal(probe); err != nil && !wrong.any() {
		wrong.add(path, err)
	}
	if wrong.any() {
		p.warnings = append(p.warnings, wrong.list...)
		if field.refused != nil {
			field.refused(node)
		}
		return
	}
	field.set(wrong, node, path, text)
}

// maxNodeAddresses is the maximum number of addresses of a node. Its network set may have more.
const maxNodeAddresses = 256

// fewAddresses returns at most maxNodeAddresses addresses. The network set has all of them.
func fewAddresses(p *problems, list []netip.Prefix) []netip.Prefix {
	if len(list) <= maxNodeAddresses {
		return list
	}
	p.warnf("status.addresses", "%d addresses are more than %d: only rules use the others", len(list),
		maxNodeAddresses)
	return list[:maxNodeAddresses]
}

// appendNodeAddress appends an address like appendSubnet, and reports one that no node can have.
func appendNodeAddress(p *problems, list []netip.Prefix, path, text string) []netip.Prefix {
	wrong := &problems{object: p.object}
	longer := appendSubnet(wrong, list, path, text)
	if len(longer) > len(list) {
		probe := &policy.Node{Name: "probe", Addresses: longer[len(list):]}
		if err := refusal(probe); err != nil {
			wrong.add(path, err)
		}
	}
	if wrong.any() {
		p.warnings = append(p.warnings, wrong.list...)
		return list
	}
	return longer
}

// finishNode makes a node and its network set canonical and validates them.
func finishNode(p *problems, node *policy.Node, set *policy.NetworkSet, path func(string) string) []policy.Resource {
	if p.any() {
		return nil
	}
	n, _ := finish(node, p, path)
	if p.any() {
		return nil
	}
	s, _ := finish(set, p, path)
	return []policy.Resource{n, s}
}

// nodeAddresses returns the addresses of the node in its status.
func nodeAddresses(p *problems, node *corev1.Node) []netip.Prefix {
	var internal, external []netip.Prefix
	for i, a := range node.Status.Addresses {
		path := fmt.Sprintf("status.addresses[%d].address", i)
		switch a.Type {
		case corev1.NodeInternalIP:
			internal = appendNodeAddress(p, internal, path, a.Address)
		case corev1.NodeExternalIP:
			external = appendNodeAddress(p, external, path, a.Address)
		case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			// Names are ignored, even if they have the form of addresses.
		}
	}
	for _, a := range external {
		internal = addSubnet(internal, a)
	}
	return internal
}

// addPodTunnels sets the tunnel addresses of a node, as Converter.PodCIDRTunnels describes. The
// function field returns the field for the family of an address, or nil. Invalid pod CIDRs are
// skipped here, because podBlocks reports them.
func addPodTunnels(out *policy.Node, node *corev1.Node, field func(*policy.Node, netip.Addr) *netip.Addr) {
	cidrs, _ := podCIDRs(node)
	for _, text := range cidrs {
		cidr, err := policy.ParseNet(text)
		address := field(out, cidr.Addr())
		if err != nil || address == nil {
			continue
		}
		probe := &policy.Node{Name: "probe"}
		*field(probe, cidr.Addr()) = cidr.Addr()
		if !address.IsValid() && refusal(probe) == nil {
			*address = cidr.Addr()
		}
	}
}

// vxlanAddress returns the address of the VXLAN device of the family of a.
func vxlanAddress(node *policy.Node, a netip.Addr) *netip.Addr {
	if a.Is4() {
		return &node.IPv4VXLANTunnelAddr
	}
	return &node.IPv6VXLANTunnelAddr
}

// ipipAddress returns the address of the IP-in-IP device, which has only IPv4.
func ipipAddress(node *policy.Node, a netip.Addr) *netip.Addr {
	if a.Is4() {
		return &node.IPv4IPIPTunnelAddr
	}
	return nil
}

// wireguardAddress returns the address of the WireGuard devices of the family of a.
func wireguardAddress(node *policy.Node, a netip.Addr) *netip.Addr {
	if a.Is4() {
		return &node.IPv4WireguardAddr
	}
	return &node.IPv6WireguardAddr
}

// podCIDRs returns the pod CIDRs of a node, and the name of their field. The first CIDR of the list
// also has a field of its own.
func podCIDRs(node *corev1.Node) (cidrs []string, field string) {
	if len(node.Spec.PodCIDRs) == 0 && node.Spec.PodCIDR != "" {
		return []string{node.Spec.PodCIDR}, "spec.podCIDR"
	}
	return node.Spec.PodCIDRs, "spec.podCIDRs[%d]"
}

// podBlocks returns a block for each pod CIDR.
func podBlocks(p *problems, node *corev1.Node) []policy.Resource {
	cidrs, field := podCIDRs(node)
	var blocks []policy.Resource
	seen := map[netip.Prefix]bool{}
	for i, text := range cidrs {
		path := field
		if len(node.Spec.PodCIDRs) > 0 {
			path = fmt.Sprintf(field, i)
		}
		cidr, err := policy.ParseNet(text)
		if err != nil {
			p.warn(path, err)
			continue
		}
		mine := &problems{object: p.object}
		block, problems := finish(&policy.Block{CIDR: cidr, Node: node.Name}, mine,
			renamed("cidr", path, "node", "metadata.name"))
		p.warnings = append(p.warnings, problems...)
		if block != nil && !seen[cidr] {
			seen[cidr] = true
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// appendSubnet appends an address, unless the list already has it. The text may have the prefix
// length of the subnet.
func appendSubnet(p *problems, list []netip.Prefix, path, text string) []netip.Prefix {
	subnet, err := netip.ParsePrefix(text)
	if err != nil {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			p.addf(path, "%q is not an IP address", text)
			return list
		}
		a = a.Unmap()
		subnet = netip.PrefixFrom(a, a.BitLen())
	}
	if subnet.Addr().Is4In6() {
		p.addf(path, "%q is an IPv4 address in IPv6 form", text)
		return list
	}
	return addSubnet(list, subnet)
}

// addSubnet appends a subnet unless the list has its address.
func addSubnet(list []netip.Prefix, subnet netip.Prefix) []netip.Prefix {
	if slices.ContainsFunc(list, func(have netip.Prefix) bool { return have.Addr() == subnet.Addr() }) {
		return list
	}
	return append(list, subnet)
}

func parseAddress(p *problems, path, text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		p.addf(path, "%q is not an IP address", text)
		return netip.Addr{}
	}
	return a.Unmap()
}
