// SPDX-License-Identifier: Apache-2.0

package labelindex

import "fmt"

// Size counts everything that the index remembers, for tests that look for leftovers.
func (x *Index[I, S]) Size() int {
	s := &x.store
	return x.items.len() + x.selectors.len() + s.parents.len() + s.queries.len() + s.names.len() + s.pairs.len() +
		s.termIDs.n + s.matches + s.sets.held() + int(s.loose.n) + len(s.changes) + x.chunks()
}

// chunks counts the allocations of all columns and hash tables.
func (x *Index[I, S]) chunks() int {
	s := &x.store
	n := len(x.items.keys.chunks) + len(x.selectors.keys.chunks) + len(x.held.chunks) + len(s.item.chunks)
	n += len(s.parents.keys.chunks) + len(s.parent.chunks) + len(s.queries.keys.chunks) + len(s.query.chunks)
	n += len(s.names.keys.chunks) + len(s.name.chunks) + len(s.pairs.keys.chunks) + len(s.pair.chunks)
	n += len(s.terms.chunks) + len(s.sets.bitmaps.chunks)
	n += x.items.table.Size() + x.selectors.table.Size() + s.parents.table.Size() + s.queries.table.Size() +
		s.names.table.Size() + s.pairs.table.Size()
	for _, c := range s.sets.classes {
		n += len(c.chunks)
	}
	return n
}

// Check compares what the index counts with what it counts up anew.
func (x *Index[I, S]) Check() error {
	s := &x.store
	inherited := func(t *term) uint32 {
		var n uint32
		for _, id := range s.sets.appendTo(nil, t.parents) {
			n += s.parent.at(id).items.n
		}
		return n
	}
	for _, id := range s.names.ids.appendTo(nil) {
		n := s.name.at(id)
		if got, want := n.inherited, inherited(&n.term); got != want {
			return fmt.Errorf("name %q is inherited by %d items, not %d", s.names.key(id), want, got)
		}
	}
	for _, id := range s.pairs.ids.appendTo(nil) {
		p := s.pair.at(id)
		if p.items.n == 0 && p.term == 0 {
			return fmt.Errorf("pair %v is of no use", s.pairs.key(id))
		}
		if p.term == 0 {
			continue
		}
		t := s.terms.at(p.term - 1)
		if got, want := t.inherited, inherited(t); got != want {
			return fmt.Errorf("pair %v is inherited by %d items, not %d", s.pairs.key(id), want, got)
		}
	}
	matches := 0
	for _, id := range s.queries.ids.appendTo(nil) {
		matches += int(s.query.at(id).matches.n)
	}
	if matches != s.matches {
		return fmt.Errorf("%d matches, not %d", matches, s.matches)
	}
	return nil
}
