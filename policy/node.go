// SPDX-License-Identifier: Apache-2.0

package policy

import "net/netip"

// Node is a machine of the cluster. Readers may share a Node that nobody changes.
type Node struct {
	// Name of the node. Required.
	Name string `json:"name"`
	// Addresses of the node, each once, with the length of the subnet that they are in, as in
	// "192.168.0.5/24": host bits stay, Canonical only unmaps. The first of each family is the one
	// that routes go to. A bare address in JSON is full-length (/32, /128), which puts every other
	// node in another subnet. Empty means that the node cannot be reached.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// IPv4VXLANTunnelAddr is the address of the node's IPv4 VXLAN device. The zero Addr means that
	// it has none, and is no end of an IPv4 tunnel; JSON leaves it out.
	IPv4VXLANTunnelAddr netip.Addr `json:"ipv4VXLANTunnelAddr,omitzero"`
	// IPv6VXLANTunnelAddr is the address of the node's IPv6 VXLAN device. The zero Addr means that
	// it has none, and is no end of an IPv6 tunnel; JSON leaves it out.
	IPv6VXLANTunnelAddr netip.Addr `json:"ipv6VXLANTunnelAddr,omitzero"`
	// VXLANTunnelMACAddr is the MAC address of the IPv4 VXLAN device, as in "66:3e:ca:a4:db:65".
	// Empty means the one that follows from the name of the node.
	VXLANTunnelMACAddr string `json:"vxlanTunnelMACAddr,omitempty"`
	// VXLANTunnelMACAddrV6 is the MAC address of the IPv6 VXLAN device. Empty means the one that
	// follows from the name of the node.
	VXLANTunnelMACAddrV6 string `json:"vxlanTunnelMACAddrV6,omitempty"`
	// Labels of the node. No selector of a policy sees them; a HostEndpoint has its own. Empty
	// means none.
	Labels map[string]string `json:"labels,omitempty"`
}
