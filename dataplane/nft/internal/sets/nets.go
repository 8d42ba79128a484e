// SPDX-License-Identifier: Apache-2.0

package sets

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// netSet has the prefixes of one family of an IP set. The kernel refuses overlapping ranges. So the
// kernel's set has only the prefixes that no other prefix contains (S88). A change of a prefix
// returns the prefixes to add to the kernel's set and those to remove from it. It takes time in
// proportion to their number and to the number of prefix lengths.
type netSet struct {
	sorted  []netip.Prefix // by dataplane.ComparePrefixes: a prefix comes before the prefixes that it contains
	lengths [129]int       // number of prefixes of each length
}

// newNetSet returns a netSet with distinct prefixes in any order. It keeps the slice.
func newNetSet(nets []netip.Prefix) netSet {
	slices.SortFunc(nets, dataplane.ComparePrefixes)
	s := netSet{sorted: nets}
	for _, n := range nets {
		s.lengths[n.Bits()]++
	}
	return s
}

func (s *netSet) clone() netSet {
	c := *s
	c.sorted = slices.Clone(s.sorted)
	return c
}

// covered reports whether a wider prefix of the set contains the prefix.
func (s *netSet) covered(p netip.Prefix) bool {
	for bits := range p.Bits() {
		if s.lengths[bits] == 0 {
			continue
		}
		wider := netip.PrefixFrom(p.Addr(), bits).Masked()
		if _, ok := slices.BinarySearchFunc(s.sorted, wider, dataplane.ComparePrefixes); ok {
			return true
		}
	}
	return false
}

// outermost returns prefixes that no other prefix contains: those from sorted[from] on, as long as
// they overlap with within.
func (s *netSet) outermost(from int, within netip.Prefix) (out []netip.Prefix) {
	for from < len(s.sorted) && within.Overlaps(s.sorted[from]) {
		n := s.sorted[from]
		out = append(out, n)
		next := ruleset.LastAddr(n).Next()
		if !next.IsValid() {
			break
		}
		from, _ = slices.BinarySearchFunc(s.sorted, netip.PrefixFrom(next, 0), dataplane.ComparePrefixes)
	}
	return out
}

// add adds a prefix. It returns the prefixes that the kernel's set must get (show) and lose (hide).
// If the prefix exists, both are empty.
func (s *netSet) add(p netip.Prefix) (show, hide []netip.Prefix) {
	i, found := slices.BinarySearchFunc(s.sorted, p, dataplane.ComparePrefixes)
	if found {
		return nil, nil
	}
	if !s.covered(p) {
		show, hide = []netip.Prefix{p}, s.outermost(i, p)
	}
	s.sorted = slices.Insert(s.sorted, i, p)
	s.lengths[p.Bits()]++
	return show, hide
}

// remove removes a prefix. It returns the prefixes that the kernel's set must get (show) and lose
// (hide). If the prefix does not exist, both are empty.
func (s *netSet) remove(p netip.Prefix) (show, hide []netip.Prefix) {
	i, found := slices.BinarySearchFunc(s.sorted, p, dataplane.ComparePrefixes)
	if !found {
		return nil, nil
	}
	s.sorted = slices.Delete(s.sorted, i, i+1)
	s.lengths[p.Bits()]--
	if !s.covered(p) {
		show, hide = s.outermost(i, p), []netip.Prefix{p}
	}
	return show, hide
}

// shown returns the prefixes of the kernel's set, sorted.
func (s *netSet) shown() []netip.Prefix {
	if len(s.sorted) == 0 {
		return nil
	}
	return s.outermost(0, netip.PrefixFrom(s.sorted[0].Addr(), 0))
}
