// SPDX-License-Identifier: Apache-2.0

package labelindex

import "fmt"

// Size counts all stored objects, for tests that an empty index has none.
func (x *Index[I, S]) Size() int {
	s := &x.store
	return x.items.Len() + x.selectors.Len() + s.parents.Len() + s.queries.Len() + s.names.Len() + s.pairs.Len() +
		s.termIDs.Len() + s.matches + s.sets.len() + int(s.loose.n) + len(s.changes) + x.chunks()
}

// chunks counts the allocations of all columns and hash tables.
func (x *Index[I, S]) chunks() int {
	s := &x.store
	n := x.items.Size() + x.selectors.Size() + s.item.Size() + s.parents.Size() + s.queries.Size() + s.names.Size() +
		s.pairs.Size() + s.terms.Size() + s.sets.bitmaps.Size()
	for _, c := range s.sets.classes {
		n += len(c.chunks)
	}
	return n
}

// Check compares the counts of the index with counts from scratch.
func (x *Index[I, S]) Check() error {
	s := &x.store
	inherited := func(t *term) uint32 {
		var n uint32
		for _, id := range s.sets.appendTo(nil, t.parents) {
			n += s.parents.At(id).items.n
		}
		return n
	}
	for _, id := range s.names.AppendTo(nil) {
		n := s.names.At(id)
		if got, want := n.inherited, inherited(&n.term); got != want {
			return fmt.Errorf("name %q is inherited by %d items, not %d", *s.names.Key(id), want, got)
		}
	}
	for _, id := range s.pairs.AppendTo(nil) {
		p := s.pairs.At(id)
		if p.items.n == 0 && p.term == 0 {
			return fmt.Errorf("pair %v has no item and no term", *s.pairs.Key(id))
		}
		if p.term == 0 {
			continue
		}
		t := s.terms.At(p.term - 1)
		if got, want := t.inherited, inherited(t); got != want {
			return fmt.Errorf("pair %v is inherited by %d items, not %d", *s.pairs.Key(id), want, got)
		}
	}
	matches := 0
	for _, id := range s.queries.AppendTo(nil) {
		matches += int(s.queries.At(id).matches.n)
	}
	if matches != s.matches {
		return fmt.Errorf("%d matches, not %d", matches, s.matches)
	}
	return nil
}

// len counts lists and bitmaps.
func (s *sets) len() int { return s.blocks() + s.ids.Len() }

// blocks counts the lists that are not empty.
func (s *lists) blocks() int {
	n := 0
	for i := range s.classes {
		n += s.classes[i].ids.Len()
	}
	return n
}
