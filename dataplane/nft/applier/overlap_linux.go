// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"bytes"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/kernel"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// missesOverlaps reports whether the kernel is older than Linux 6.17, or its version is not known.
//
// Before Linux 6.17, a lookup in an interval set may miss an element while a transaction replaces
// it by an overlapping one. In a set of one field, the lookup stops at an inactive element and
// misses an active one (net/netfilter/nft_set_rbtree.c). In a concatenation, the old elements
// become inactive shortly before the new ones can be found (net/netfilter/nft_set_pipapo.c).
func missesOverlaps() bool { return kernel.OlderThan(6, 17, 0) }

// replacesOverlaps reports whether the operations replace elements of an interval set by others
// that overlap them. In a concatenation, all elements count as overlapping.
func replacesOverlaps(ops []ruleset.Op) bool {
	added, removed := map[string][]ruleset.Element{}, map[string][]ruleset.Element{}
	for i := range ops {
		op := &ops[i]
		if op.Set == nil || !op.Set.Interval || op.Unseen {
			continue
		}
		switch op.Kind {
		case ruleset.AddElements:
			added[op.Set.Name] = append(added[op.Set.Name], op.Elements...)
		case ruleset.DeleteElements:
			removed[op.Set.Name] = append(removed[op.Set.Name], op.Elements...)
		}
	}
	for name, list := range added {
		if overlap(list, removed[name]) {
			return true
		}
	}
	return false
}

// overlap reports whether an element of one list overlaps an element of the other one. Elements of
// a concatenation count as overlapping. The elements within one list do not overlap.
func overlap(a, b []ruleset.Element) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	if len(a[0].Key) > 1 {
		return true
	}
	byKey := func(x, y ruleset.Element) int { return bytes.Compare(x.Key[0], y.Key[0]) }
	a, b = slices.SortedFunc(slices.Values(a), byKey), slices.SortedFunc(slices.Values(b), byKey)
	for len(a) > 0 && len(b) > 0 {
		switch {
		case bytes.Compare(a[0].End(0), b[0].Key[0]) < 0:
			a = a[1:]
		case bytes.Compare(b[0].End(0), a[0].Key[0]) < 0:
			b = b[1:]
		default:
			return true
		}
	}
	return false
}
