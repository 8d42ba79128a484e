// SPDX-License-Identifier: Apache-2.0

package policy

import "net/netip"

// Validate reports every problem of the pool as one *ValidationError, or nil.
func (p *IPPool) Validate() error {
	v := &validator{}
	v.name("name", p.Name)
	v.poolCIDR(p.CIDR)
	v.encapMode("vxlanMode", p.VXLANMode)
	v.encapMode("ipipMode", p.IPIPMode)
	if p.IPIPMode.Encapsulates() {
		if p.VXLANMode.Encapsulates() {
			v.add("ipipMode", "excludes vxlanMode: one of them must be Never")
		}
		if p.CIDR.Addr().Is6() {
			v.add("ipipMode", "IP in IP is for IPv4 alone")
		}
	}
	return v.err(p.Key())
}

// poolCIDR refuses what holds addresses that no workload may have, as link-local ones are of the
// interface that they are on.
func (v *validator) poolCIDR(cidr netip.Prefix) {
	if !v.cidr(cidr) {
		return
	}
	for _, s := range []struct{ prefix, name string }{
		{"169.254.0.0/16", "link-local"},
		{"fe80::/10", "link-local"},
		{"224.0.0.0/4", "multicast"},
		{"ff00::/8", "multicast"},
		{"127.0.0.0/8", "loopback"},
		{"::1/128", "loopback"},
	} {
		if p, err := netip.ParsePrefix(s.prefix); err == nil && p.Overlaps(cidr) {
			v.add("cidr", "%s has addresses of %s, which are %s", cidr, s.prefix, s.name)
		}
	}
}

// cidr checks a required prefix.
func (v *validator) cidr(cidr netip.Prefix) bool {
	why := netProblem(cidr)
	if cidr == (netip.Prefix{}) {
		why = "required"
	}
	if why != "" {
		v.add("cidr", "%s", why)
	}
	return why == ""
}

func (v *validator) encapMode(field string, m EncapMode) {
	switch m {
	case "", EncapNever, EncapAlways, EncapCrossSubnet:
	default:
		v.add(field, "want Never, Always or CrossSubnet, not %q", clip(string(m)))
	}
}

// Validate reports every problem of the block as one *ValidationError, or nil.
func (b *Block) Validate() error {
	v := &validator{}
	known := v.cidr(b.CIDR)
	if b.Node != "" {
		v.name("node", b.Node)
	}
	if !v.atMost("borrowed", len(b.Borrowed), maxBorrowed) {
		return v.err(b.Key())
	}
	seen := map[netip.Addr]bool{}
	for i, a := range b.Borrowed {
		v.enter("borrowed", i)
		switch {
		case !a.Address.IsValid():
			v.add("address", "required")
		case a.Address.Is4In6():
			v.add("address", "an IPv4-mapped address is not canonical (see Canonical)")
		case known && !b.CIDR.Contains(a.Address):
			v.add("address", "%s is not in %s", a.Address, b.CIDR)
		case seen[a.Address]:
			v.add("address", "%s is given twice", a.Address)
		}
		seen[a.Address] = true
		v.name("node", a.Node)
		if a.Node != "" && a.Node == b.Node {
			v.add("node", "%q is the block's own node, which needs to borrow nothing", clip(a.Node))
		}
		v.leave()
	}
	return v.err(b.Key())
}

// Validate reports every problem of the node as one *ValidationError, or nil.
func (n *Node) Validate() error {
	v := &validator{}
	v.name("name", n.Name)
	v.nodeAddresses(n.Addresses)
	v.tunnelAddress("ipv4VXLANTunnelAddr", n.IPv4VXLANTunnelAddr, 4)
	v.tunnelAddress("ipv6VXLANTunnelAddr", n.IPv6VXLANTunnelAddr, 6)
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

// Validate reports every problem of this part of the service as one *ValidationError, or nil.
func (s *ServiceBackends) Validate() error {
	v := &validator{}
	v.name("namespace", s.Namespace)
	v.name("name", s.Name)
	v.name("service", s.Service)
	v.addresses("addresses", s.Addresses, maxBackends)
	if !v.atMost("ports", len(s.Ports), maxPorts) {
		return v.err(s.Key())
	}
	for i, p := range s.Ports {
		v.enter("ports", i)
		v.protocolWithPort(p.Protocol, p.Port)
		v.leave()
	}
	return v.err(s.Key())
}
