// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

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
	// it has none, and is no end of an IPv4 tunnel; JSON leaves it out. A tunnel address that is also
	// one of Addresses counts as none, here and below.
	IPv4VXLANTunnelAddr netip.Addr `json:"ipv4VXLANTunnelAddr,omitzero"`
	// IPv6VXLANTunnelAddr is the address of the node's IPv6 VXLAN device. The zero Addr means that
	// it has none, and is no end of an IPv6 tunnel; JSON leaves it out.
	IPv6VXLANTunnelAddr netip.Addr `json:"ipv6VXLANTunnelAddr,omitzero"`
	// IPv4IPIPTunnelAddr is the address of the node's IP-in-IP device. The zero Addr means that it has
	// none, and is no end of an IP-in-IP tunnel; JSON leaves it out. It may be IPv4VXLANTunnelAddr too.
	IPv4IPIPTunnelAddr netip.Addr `json:"ipv4IPIPTunnelAddr,omitzero"`
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

// Key returns the node's identity.
func (n *Node) Key() Key { return Key{Kind: KindNode, Name: n.Name} }

// TunnelAddresses returns the addresses of all tunnel devices of the node. The zero Addr stands for a
// device that the node does not have.
func (n *Node) TunnelAddresses() []netip.Addr {
	return []netip.Addr{n.IPv4VXLANTunnelAddr, n.IPv6VXLANTunnelAddr, n.IPv4IPIPTunnelAddr}
}

// Validate reports every problem of the node as one *ValidationError, or nil.
func (n *Node) Validate() error {
	v := &validator{}
	v.name("name", n.Name)
	v.nodeAddresses(n.Addresses)
	v.tunnelAddress("ipv4VXLANTunnelAddr", n.IPv4VXLANTunnelAddr, 4)
	v.tunnelAddress("ipv6VXLANTunnelAddr", n.IPv6VXLANTunnelAddr, 6)
	v.tunnelAddress("ipv4IPIPTunnelAddr", n.IPv4IPIPTunnelAddr, 4)
	for _, mac := range []struct{ field, s string }{
		{"vxlanTunnelMACAddr", n.VXLANTunnelMACAddr},
		{"vxlanTunnelMACAddrV6", n.VXLANTunnelMACAddrV6},
	} {
		if why := macProblem(mac.s); mac.s != "" && why != "" {
			v.add(mac.field, "%s", why)
		}
	}
	v.labels("labels", n.Labels)
	return v.err(n.Key())
}

func (n *Node) equal(other Resource) bool {
	o, ok := other.(*Node)
	return ok && n.Name == o.Name && slices.Equal(n.Addresses, o.Addresses) &&
		n.IPv4VXLANTunnelAddr == o.IPv4VXLANTunnelAddr && n.IPv6VXLANTunnelAddr == o.IPv6VXLANTunnelAddr &&
		n.IPv4IPIPTunnelAddr == o.IPv4IPIPTunnelAddr &&
		n.VXLANTunnelMACAddr == o.VXLANTunnelMACAddr && n.VXLANTunnelMACAddrV6 == o.VXLANTunnelMACAddrV6 &&
		maps.Equal(n.Labels, o.Labels)
}

func (n *Node) canonicalize() {
	n.VXLANTunnelMACAddr = strings.ToLower(n.VXLANTunnelMACAddr)
	n.VXLANTunnelMACAddrV6 = strings.ToLower(n.VXLANTunnelMACAddrV6)
}

// nodeAddresses checks addresses that stand with the length of their subnet.
func (v *validator) nodeAddresses(addrs []netip.Prefix) {
	if !v.atMost("addresses", len(addrs), maxAddresses) {
		return
	}
	seen := map[netip.Addr]bool{}
	for i, p := range addrs {
		why := addressProblem(p.Addr())
		switch {
		case !p.IsValid():
			why = "no address with the length of its subnet"
		case seen[p.Addr()]:
			why = "given twice"
		}
		if why != "" {
			v.add(index("addresses", i), "%s: %s", p, why)
		}
		seen[p.Addr()] = true
	}
}

// tunnelAddress checks an optional address of one family.
func (v *validator) tunnelAddress(field string, a netip.Addr, version int) {
	if !a.IsValid() {
		return
	}
	why := addressProblem(a)
	if why == "" && a.Is4() != (version == 4) {
		why = "of the other family"
	}
	if why != "" {
		v.add(field, "%s: %s", a, why)
	}
}
