// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// familyOf returns 0 for an IPv4 address and 1 for an IPv6 address.
func familyOf(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// single returns the full-length prefix of an address.
func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// canonical returns the prefix unmapped and without host bits, or the zero prefix if p is invalid.
func canonical(p netip.Prefix) netip.Prefix { return unmapped(p).Masked() }

// unmapped returns the prefix with its host bits, as an IPv4 prefix if it is mapped.
func unmapped(p netip.Prefix) netip.Prefix {
	if !p.IsValid() || !p.Addr().Is4In6() {
		return p
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96) // invalid if it was shorter than 96 bits
}

// routable reports whether there can be a route to the address of a node or workload.
func routable(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() &&
		!(a.Is6() && a.IsLinkLocalUnicast())
}

// firstAddresses returns the first address of each family of a node with the length of its subnet,
// or the zero prefix.
func firstAddresses(n *policy.Node) (first [2]netip.Prefix) {
	if n == nil {
		return first
	}
	for _, p := range n.Addresses {
		p = unmapped(p)
		if family := familyOf(p.Addr()); routable(p.Addr()) && p.IsValid() && !first[family].IsValid() {
			first[family] = p
		}
	}
	return first
}

// eachNodeClaim calls f for the addresses of a node and of its tunnel devices.
func eachNodeClaim(n *policy.Node, f func(netip.Prefix, claim)) {
	if n == nil {
		return
	}
	for _, p := range n.Addresses {
		if p = unmapped(p); p.IsValid() && routable(p.Addr()) {
			f(single(p.Addr()), claim{kind: claimHost, node: n.Name})
		}
	}
	first := firstAddresses(n)
	for _, a := range n.TunnelAddresses() {
		a = a.Unmap()
		// A VXLAN or IP-in-IP device needs an address of the node in its family, see
		// TunnelResolver. A WireGuard device does not.
		wireguard := a == n.IPv4WireguardAddr.Unmap() || a == n.IPv6WireguardAddr.Unmap()
		if routable(a) && (wireguard || first[familyOf(a)].IsValid()) {
			f(single(a), claim{kind: claimTunnel, node: n.Name})
		}
	}
}

// inSubnet reports whether another node's address is in the subnet of this node. A full-length
// prefix is a subnet of its own, on both sides.
func inSubnet(own, other netip.Prefix) bool {
	return own.IsValid() && other.IsValid() && !own.IsSingleIP() && !other.IsSingleIP() && own.Contains(other.Addr())
}
