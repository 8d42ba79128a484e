// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/netip"
	"slices"
)

// Outside returns parties that represent the addresses outside: all those that no workload endpoint
// has. Each party has one address. Outside chooses the addresses from these networks:
//
//   - each network that a resource mentions
//   - the address of each backend of a service
//   - for each family, the network of all addresses
//
// From each of these networks, Outside takes one address that is in no narrower network of the
// list, and that no workload endpoint has. If there is no such address, there is no party for the
// network. The name of a party has its address, and usually the network from which the address was
// taken, as in "10.0.0.1 (10.0.0.0/8)".
func (p *Partition) Outside() []Party {
	whole := []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	nets := append(whole, p.nets...)
	for addr := range p.backends {
		nets = append(nets, netip.PrefixFrom(addr, addr.BitLen()))
	}
	slices.SortFunc(nets, comparePrefixes)
	nets = slices.Compact(nets)
	taken := slices.Clone(nets)
	for addr := range p.ownerCounts {
		taken = append(taken, netip.PrefixFrom(addr, addr.BitLen()))
	}
	slices.SortFunc(taken, comparePrefixes)
	taken = slices.Compact(taken)

	var out []Party
	for _, n := range nets {
		addr, ok := p.free(n, taken)
		if !ok {
			continue
		}
		name := addr.String() + " (" + n.String() + ")"
		switch {
		case n.IsSingleIP():
			name = addr.String()
		case n.Bits() == 0 && !slices.Contains(p.nets, n):
			name = addr.String() + " (any address not mentioned)"
		}
		out = append(out, Party{Name: name, Addresses: []netip.Addr{addr}})
	}
	return out
}

// free returns an address of a network that is in none of the narrower networks in taken.
//
// The smallest such address, if there is one, is the network's first address or the address after a
// narrower network. So these are the candidates.
func (p *Partition) free(n netip.Prefix, taken []netip.Prefix) (netip.Addr, bool) {
	var narrower []netip.Prefix
	for _, t := range taken {
		if t != n && n.Contains(t.Addr()) && t.Bits() >= n.Bits() {
			narrower = append(narrower, t)
		}
	}
	if n.IsSingleIP() && p.ownerCounts[n.Addr()] > 0 {
		return netip.Addr{}, false
	}
	candidates := []netip.Addr{n.Addr().Next(), n.Addr()} // .0 only if no other is free
	if n.Bits() == 0 {                                    // 0.0.0.1 is special, too
		candidates = append([]netip.Addr{
			netip.AddrFrom4([4]byte{203, 0, 113, 1}),
			netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0xff, 0xff, 15: 1}),
		},
			candidates...)
	}
	for _, t := range narrower {
		candidates = append(candidates, last(t).Next())
	}
	for _, addr := range candidates {
		if addr.IsValid() && n.Contains(addr) &&
			!slices.ContainsFunc(narrower, func(t netip.Prefix) bool { return t.Contains(addr) }) {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// last returns the last address of a network.
func last(n netip.Prefix) netip.Addr {
	bytes := n.Masked().Addr().AsSlice()
	for i := n.Bits(); i < len(bytes)*8; i++ {
		bytes[i/8] |= 1 << (7 - i%8)
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}
