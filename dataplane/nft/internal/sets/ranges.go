// SPDX-License-Identifier: Apache-2.0

package sets

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Range is an inclusive range of addresses.
type Range struct{ First, Last netip.Addr }

// Element returns the range as an element of a set.
func (r Range) Element() ruleset.Element {
	e := ruleset.Element{Key: []ruleset.Value{ruleset.Addr(r.First)}}
	if r.Last != r.First {
		e.Last = ruleset.Addr(r.Last)
	}
	return e
}

// Everything reports whether the range contains all addresses of its family.
func (r Range) Everything() bool {
	return r.First.IsUnspecified() && !r.Last.Next().IsValid()
}

// MergeNets returns the fewest disjoint ranges that contain exactly the addresses of the prefixes.
func MergeNets(nets []netip.Prefix) []Range {
	var out []Range
	for _, n := range Uncovered(slices.Clone(nets)) {
		if i := len(out) - 1; i >= 0 && out[i].Last.Next() == n.Addr() {
			out[i].Last = ruleset.LastAddr(n)
			continue
		}
		out = append(out, Range{n.Addr(), ruleset.LastAddr(n)})
	}
	return out
}

// Uncovered returns the prefixes that no other prefix contains, sorted. It changes its argument.
func Uncovered(nets []netip.Prefix) []netip.Prefix {
	slices.SortFunc(nets, dataplane.ComparePrefixes)
	out := nets[:0]
	for _, n := range nets {
		if len(out) == 0 || !out[len(out)-1].Overlaps(n) {
			out = append(out, n)
		}
	}
	return out
}
