// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"slices"

	"github.com/wayleave/wayleave/internal/idtable"
)

// set is a set of ids, stored in a sets. The zero set is empty. The representation depends on the
// size:
//
//	n == 1          ref is the id
//	n <= smallSet   ref is the block of a sorted list
//	n larger        ref is the number of a bitmap
type set struct{ n, ref uint32 }

const smallSet = exactClasses

// sets stores the ids of many sets, and lists of ids.
type sets struct {
	lists
	ids     idtable.IDs // of bitmaps
	bitmaps idtable.Column[bitmap]
}

// add adds an id to a set. It reports whether the id is new.
func (s *sets) add(t *set, id uint32) bool {
	switch {
	case t.n == 0:
		*t = set{n: 1, ref: id}
		return true
	case t.n == 1:
		if t.ref == id {
			return false
		}
		l := s.alloc(2)
		pair := s.get(l)
		pair[0], pair[1] = min(id, t.ref), max(id, t.ref)
		*t = set{n: 2, ref: l.block}
		return true
	case t.n > smallSet:
		if !s.bitmaps.At(t.ref).add(id) {
			return false
		}
		t.n++
		return true
	}
	l := list{n: t.n, block: t.ref}
	index, found := slices.BinarySearch(s.get(l), id)
	switch {
	case found:
		return false
	case t.n == smallSet:
		s.toBitmap(t)
		s.bitmaps.At(t.ref).add(id)
		t.n++
		return true
	}
	s.insert(&l, index, id)
	*t = set{n: l.n, ref: l.block}
	return true
}

// remove removes an id from a set. It reports whether the set had the id.
func (s *sets) remove(t *set, id uint32) bool {
	switch {
	case t.n == 0 || t.n == 1 && t.ref != id:
		return false
	case t.n == 1:
		*t = set{}
		return true
	case t.n > smallSet:
		if !s.bitmaps.At(t.ref).remove(id) {
			return false
		}
		t.n--
		if t.n == smallSet {
			s.toSmall(t)
		}
		return true
	}
	l := list{n: t.n, block: t.ref}
	ids := s.get(l)
	index, found := slices.BinarySearch(ids, id)
	switch {
	case !found:
		return false
	case t.n == 2:
		*t = set{n: 1, ref: ids[1-index]}
		s.free(l)
	default:
		s.removeAt(&l, index)
		*t = set{n: l.n, ref: l.block}
	}
	return true
}

// has reports whether a set has an id.
func (s *sets) has(t set, id uint32) bool {
	switch {
	case t.n <= 1:
		return t.n == 1 && t.ref == id
	case t.n > smallSet:
		return s.bitmaps.At(t.ref).has(id)
	}
	_, found := slices.BinarySearch(s.get(list{n: t.n, block: t.ref}), id)
	return found
}

// clear removes all ids from a set.
func (s *sets) clear(t *set) {
	switch {
	case t.n > smallSet:
		s.freeBitmap(t.ref)
	case t.n > 1:
		s.free(list{n: t.n, block: t.ref})
	}
	*t = set{}
}

// appendTo appends the ids of a set, sorted.
func (s *sets) appendTo(buf []uint32, t set) []uint32 {
	switch {
	case t.n == 1:
		return append(buf, t.ref)
	case t.n <= smallSet:
		return append(buf, s.get(list{n: t.n, block: t.ref})...)
	}
	return s.bitmaps.At(t.ref).appendTo(slices.Grow(buf, int(t.n)))
}

// toBitmap and toSmall convert a set of smallSet ids, before it grows and after it has shrunk.
func (s *sets) toBitmap(t *set) {
	ref := s.ids.Alloc()
	s.bitmaps.Grow(ref)
	b := s.bitmaps.At(ref)
	l := list{n: t.n, block: t.ref}
	for _, id := range s.get(l) {
		b.add(id)
	}
	s.free(l)
	t.ref = ref
}

func (s *sets) toSmall(t *set) {
	l := s.alloc(int(t.n))
	s.bitmaps.At(t.ref).appendTo(s.get(l)[:0])
	s.freeBitmap(t.ref)
	t.ref = l.block
}

func (s *sets) freeBitmap(ref uint32) {
	s.ids.Free(ref)
	s.bitmaps.Clear(ref, &s.ids)
}
