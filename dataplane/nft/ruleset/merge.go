// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"slices"
)

// MergeRanges returns disjoint elements, in order, that together cover what the elements cover:
// values and ranges over one field in network byte order. Ranges that touch become one. The
// elements must be well-formed and are not changed; verdicts, data and comments are lost, so it is
// not for maps.
func MergeRanges(elements []Element) []Element {
	sorted := slices.SortedFunc(slices.Values(elements), CompareElements)
	out := make([]Element, 0, len(sorted))
	for _, e := range sorted {
		e = Element{Key: e.Key, Last: e.end(0)}
		if len(out) > 0 {
			last := &out[len(out)-1]
			if bytes.Compare(e.Key[0], last.Last) <= 0 || follows(last.Last, e.Key[0]) {
				if bytes.Compare(e.Last, last.Last) > 0 {
					last.Last = e.Last
				}
				continue
			}
		}
		out = append(out, e)
	}
	for i := range out {
		if bytes.Equal(out[i].Key[0], out[i].Last) {
			out[i].Last = nil
		}
	}
	return out
}

// follows reports whether b is the number after a.
func follows(a, b Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := len(a) - 1; i >= 0; i-- {
		if a[i] != 0xff {
			return b[i] == a[i]+1 && bytes.Equal(a[:i], b[:i])
		}
		if b[i] != 0 {
			return false
		}
	}
	return false
}
