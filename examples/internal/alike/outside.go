// SPDX-License-Identifier: Apache-2.0

package alike

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/examples/internal/question"
)

// Outside returns parties that are no pods, one for each part of the address space that policy can
// tell from the rest: for each network that is mentioned, and each backend of a service, an address
// that is in no narrower one, and for each family one that is in none. A network that pods and
// narrower networks fill has none.
func (s *Space) Outside() []question.Party {
	whole := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	nets := append(whole, s.nets...)
	for addr := range s.backends {
		nets = append(nets, netip.PrefixFrom(addr, addr.BitLen()))
	}
	slices.SortFunc(nets, comparePrefixes)
	nets = slices.Compact(nets)
	taken := slices.Clone(nets)
	for addr := range s.holders {
		taken = append(taken, netip.PrefixFrom(addr, addr.BitLen()))
	}
	slices.SortFunc(taken, comparePrefixes)
	taken = slices.Compact(taken)

	var out []question.Party
	for _, n := range nets {
		addr, ok := s.free(n, taken)
		if !ok {
			continue
		}
		name := addr.String() + " (" + n.String() + ")"
		switch {
		case n.IsSingleIP():
			name = addr.String()
		case n.Bits() == 0 && !slices.Contains(s.nets, n):
			name = addr.String() + " (any address not mentioned)"
		}
		out = append(out, question.Party{Name: name, Addresses: []netip.Addr{addr}})
	}
	return out
}

// free returns an address of a network that is in none of the narrower ones that are taken.
//
// If there is any, then the smallest of them is the network's first address, or comes right behind
// the end of a narrower one.
func (s *Space) free(n netip.Prefix, taken []netip.Prefix) (netip.Addr, bool) {
	var narrower []netip.Prefix
	for _, t := range taken {
		if t != n && n.Contains(t.Addr()) && t.Bits() >= n.Bits() {
			narrower = append(narrower, t)
		}
	}
	if n.IsSingleIP() && s.holders[n.Addr()] > 0 {
		return netip.Addr{}, false
	}
	candidates := []netip.Addr{n.Addr().Next(), n.Addr()} // the first one looks odd, where others will do
	if n.Bits() == 0 {                                    // as does 0.0.0.1
		candidates = append([]netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db8:ffff::1")},
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
