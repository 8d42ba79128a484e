// SPDX-License-Identifier: Apache-2.0

package policy

import "net/netip"

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

func canonicalizeNets(nets Nets) {
	for i, p := range nets {
		nets[i] = canonicalNet(p)
	}
}
