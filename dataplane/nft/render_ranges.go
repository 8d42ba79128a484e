// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// addrRange is an inclusive range of addresses.
type addrRange struct{ first, last netip.Addr }

// element returns the range as an element of a set.
func (r addrRange) element() ruleset.Element {
	e := ruleset.Element{Key: []ruleset.Value{ruleset.Addr(r.first)}}
	if r.last != r.first {
		e.Last = ruleset.Addr(r.last)
	}
	return e
}

// everything reports whether the range holds its whole family.
func (r addrRange) everything() bool {
	return r.first.IsUnspecified() && !r.last.Next().IsValid()
}

// mergeNets returns the fewest disjoint ranges that hold just what the prefixes hold.
func mergeNets(nets []netip.Prefix) []addrRange {
	var out []addrRange
	for _, n := range uncovered(slices.Clone(nets)) {
		if i := len(out) - 1; i >= 0 && out[i].last.Next() == n.Addr() {
			out[i].last = lastAddr(n)
			continue
		}
		out = append(out, addrRange{n.Addr(), lastAddr(n)})
	}
	return out
}

// uncovered returns the prefixes that are inside no other one, sorted. It changes its argument.
func uncovered(nets []netip.Prefix) []netip.Prefix {
	slices.SortFunc(nets, dataplane.ComparePrefixes)
	out := nets[:0]
	for _, n := range nets {
		if len(out) == 0 || !out[len(out)-1].Overlaps(n) {
			out = append(out, n)
		}
	}
	return out
}

// lastAddr returns the last address of a masked prefix.
func lastAddr(n netip.Prefix) netip.Addr {
	if n.IsSingleIP() {
		return n.Addr()
	}
	b := n.Addr().AsSlice()
	for i := n.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
