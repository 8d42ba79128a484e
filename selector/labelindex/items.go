// SPDX-License-Identifier: Apache-2.0

package labelindex

import "slices"

// setItem gives an item its labels and parents and finds out which matches that changes.
func (s *store) setItem(id uint32, fresh bool, labels map[string]string, parents []string) {
	if fresh {
		s.item.Grow(id)
	}
	it := s.item.At(id)
	if !fresh && s.equal(s.sets.get(it.labels), labels) && s.hasParents(it, parents) {
		return
	}
	s.incoming = s.internAll(s.incoming[:0], labels)
	own := len(s.incoming)
	for _, name := range parents {
		s.incoming = append(s.incoming, s.internParent(name))
	}
	s.untouched()
	s.relabel(id, it, s.incoming[:own])
	s.adopt(id, it, s.incoming[own:])
	switch {
	case s.queries.Len() == 0:
	case fresh:
		s.enter(id)
		s.refile()
	case s.interesting():
		s.revise(id)
		s.refile()
	}
}

// dropItem stops all matches of an item and takes away all that refers to it.
func (s *store) dropItem(id uint32) {
	it := s.item.At(id)
	if s.queries.Len() > 0 {
		s.leave(id)
	}
	s.untouched()
	s.relabel(id, it, nil)
	s.adopt(id, it, nil)
}

// relabel replaces the pairs of an item.
func (s *store) relabel(id uint32, it *item, pairs []uint32) {
	before := s.sets.get(it.labels)
	// All that goes first: the name of what goes may be the name of what comes.
	only(before, pairs, func(pairID uint32) {
		s.takeItem(id, pairID)
		s.touch(pairID)
		s.releasePair(pairID)
	})
	only(pairs, before, func(pairID uint32) {
		s.giveItem(id, pairID)
		s.touch(pairID)
	})
	s.sets.put(&it.labels, pairs)
}

// adopt replaces the parents of an item.
func (s *store) adopt(id uint32, it *item, parents []uint32) {
	before := s.sets.get(it.parents)
	if slices.Equal(before, parents) {
		return
	}
	same := 0 // equal first entries hide the later ones as before
	for same < min(len(before), len(parents)) && before[same] == parents[same] {
		same++
	}
	for _, p := range before[same:] {
		s.touchAll(p)
	}
	for _, p := range parents[same:] {
		s.touchAll(p)
		if s.sets.add(&s.parents.At(p).items, id) {
			s.inherit(p, +1)
		}
	}
	for i, p := range before {
		if slices.Index(before, p) < i || slices.Contains(parents, p) {
			continue // named twice, or named still
		}
		s.sets.remove(&s.parents.At(p).items, id)
		s.inherit(p, -1)
		s.releaseParent(p)
	}
	s.sets.put(&it.parents, parents)
}

// untouched begins to note what changes.
func (s *store) untouched() { s.changed, s.gone = s.changed[:0], s.gone[:0] }

// touch notes that a pair comes or goes, and its name may so have another value, if that is of
// interest to a query.
func (s *store) touch(pairID uint32) {
	nameID := s.nameOf(pairID)
	n := s.names.At(nameID)
	if n.mentions.n == 0 {
		return
	}
	s.changed = append(s.changed, nameID)
	if p := s.pairs.At(pairID); p.term != 0 && s.terms.At(p.term-1).filed.n > 0 {
		s.gone = append(s.gone, pairID)
	}
}

// touchAll does so for all pairs of a parent.
func (s *store) touchAll(parentID uint32) {
	for _, pairID := range s.sets.get(s.parents.At(parentID).labels) {
		s.touch(pairID)
	}
}

// interesting reports whether a query mentions what changed, and puts the changed names in order.
func (s *store) interesting() bool {
	slices.Sort(s.changed)
	s.changed = slices.Compact(s.changed)
	return len(s.changed) > 0
}

func (s *store) hasParents(it *item, names []string) bool {
	return slices.EqualFunc(s.sets.get(it.parents), names, func(p uint32, name string) bool {
		return *s.parents.Key(p) == name
	})
}
