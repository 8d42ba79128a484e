// SPDX-License-Identifier: Apache-2.0

package labelindex

// Size counts everything that the index remembers, for tests that look for leftovers.
func (x *Index[I, S]) Size() int {
	n := len(x.items) + len(x.parents) + len(x.selectors) + len(x.queries) + len(x.changes)
	for _, p := range x.parents {
		n += len(p.items)
	}
	for _, it := range x.items {
		n += len(it.matches)
	}
	for _, q := range x.queries {
		n += len(q.ids) + len(q.matches)
	}
	return n
}
