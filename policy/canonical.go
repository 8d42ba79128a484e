// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"strings"
)

// Canonical returns a copy of r in which equal things are written equally: prefixes are masked and
// unmapped (the addresses of a Node, which are no prefixes, only unmapped), addresses unmapped, the
// types of a policy in their usual case, MAC addresses in small letters. What has no canonical
// form, as a mapped address with a zone, or a mapped prefix with less than 96 bits, stays as it is,
// for Validate to refuse. Nil stays nil.
func Canonical(r Resource) Resource {
	c := Clone(r)
	if c != nil {
		c.canonicalize()
	}
	return c
}

func (p *Policy) canonicalize() {
	for i, t := range p.Types {
		p.Types[i] = t.canonical()
	}
	canonicalizeRules(p.Ingress)
	canonicalizeRules(p.Egress)
}

func (t *Tier) canonicalize() {}

func (p *Profile) canonicalize() {
	canonicalizeRules(p.Ingress)
	canonicalizeRules(p.Egress)
}

func (n *NetworkSet) canonicalize() { canonicalizeNets(n.Nets) }

func (w *WorkloadEndpoint) canonicalize() {
	unmapAll(w.Addresses)
	w.MAC = strings.ToLower(w.MAC)
	for i, n := range w.IPNATs {
		w.IPNATs[i] = IPNAT{InternalIP: unmap(n.InternalIP), ExternalIP: unmap(n.ExternalIP)}
	}
	canonicalizeNets(w.AllowSpoofedSourcePrefixes)
}

func (h *HostEndpoint) canonicalize() { unmapAll(h.ExpectedIPs) }

func (p *IPPool) canonicalize() { p.CIDR = canonicalNet(p.CIDR) }

func (b *Block) canonicalize() {
	b.CIDR = canonicalNet(b.CIDR)
	for i := range b.Borrowed {
		b.Borrowed[i].Address = unmap(b.Borrowed[i].Address)
	}
}

func (n *Node) canonicalize() {
	for i, p := range n.Addresses {
		n.Addresses[i] = unmapNet(p)
	}
	n.IPv4VXLANTunnelAddr = unmap(n.IPv4VXLANTunnelAddr)
	n.IPv6VXLANTunnelAddr = unmap(n.IPv6VXLANTunnelAddr)
	n.VXLANTunnelMACAddr = strings.ToLower(n.VXLANTunnelMACAddr)
	n.VXLANTunnelMACAddrV6 = strings.ToLower(n.VXLANTunnelMACAddrV6)
}

func (s *ServiceBackends) canonicalize() { unmapAll(s.Addresses) }

func unmapAll(addrs []netip.Addr) {
	for i, a := range addrs {
		addrs[i] = unmap(a)
	}
}

// unmap makes an IPv4-mapped address the IPv4 one that it stands for. With a zone it stands for
// none.
func unmap(a netip.Addr) netip.Addr {
	if a.Zone() != "" {
		return a
	}
	return a.Unmap()
}

func canonicalizeRules(rules []Rule) {
	for i := range rules {
		for _, side := range []*EntityRule{&rules[i].Source, &rules[i].Destination} {
			canonicalizeNets(side.Nets)
			canonicalizeNets(side.NotNets)
		}
	}
}

func canonicalizeNets(nets Nets) {
	for i, p := range nets {
		nets[i] = canonicalNet(p)
	}
}

// canonical returns the type in its usual case, or as it is where it is unknown.
func (t Type) canonical() Type {
	for _, known := range []Type{Ingress, Egress} {
		if sameLetters(string(t), string(known)) {
			return known
		}
	}
	return t
}
