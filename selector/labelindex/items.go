// SPDX-License-Identifier: Apache-2.0

package labelindex

import "slices"

// setItem sets the labels and parents of an item and updates its matches.
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
	s.resetChanged()
	s.replaceLabels(id, it, s.incoming[:own])
	s.replaceParents(id, it, s.incoming[own:])
	switch {
	case s.queries.Len() == 0:
	case fresh:
		s.addMatches(id)
		s.refile()
	case s.sortChanged():
		s.updateMatches(id)
		s.refile()
	}
}

// dropItem stops all matches of an item and removes the references to it.
func (s *store) dropItem(id uint32) {
	it := s.item.At(id)
	if s.queries.Len() > 0 {
		s.removeMatches(id)
	}
	s.resetChanged()
	s.replaceLabels(id, it, nil)
	s.replaceParents(id, it, nil)
}

// replaceLabels replaces the pairs of an item.
func (s *store) replaceLabels(id uint32, it *item, pairs []uint32) {
	before := s.sets.get(it.labels)
	// Removed pairs first: an added pair can have the same name.
	difference(before, pairs, func(pairID uint32) {
		s.removeItem(id, pairID)
		s.markChanged(pairID)
		s.releasePair(pairID)
	})
	difference(pairs, before, func(pairID uint32) {
		s.addItem(id, pairID)
		s.markChanged(pairID)
	})
	s.sets.put(&it.labels, pairs)
}

// replaceParents replaces the parents of an item.
func (s *store) replaceParents(id uint32, it *item, parents []uint32) {
	before := s.sets.get(it.parents)
	if slices.Equal(before, parents) {
		return
	}
	same := 0 // equal first entries hide the same labels of later ones as before
	for same < min(len(before), len(parents)) && before[same] == parents[same] {
		same++
	}
	for _, p := range before[same:] {
		s.markParentChanged(p)
	}
	for _, p := range parents[same:] {
		s.markParentChanged(p)
		if s.sets.add(&s.parents.At(p).items, id) {
			s.addInherited(p, +1)
		}
	}
	for i, p := range before {
		if slices.Index(before, p) < i || slices.Contains(parents, p) {
			continue // named twice, or still named
		}
		s.sets.remove(&s.parents.At(p).items, id)
		s.addInherited(p, -1)
		s.releaseParent(p)
	}
	s.sets.put(&it.parents, parents)
}

// resetChanged starts a new list of changed names and pairs.
func (s *store) resetChanged() { s.changed, s.changedPairs = s.changed[:0], s.changedPairs[:0] }

// markChanged records that an item or parent gains or loses a pair, so that the effective value of
// its name may change. It records nothing if no query mentions the name.
func (s *store) markChanged(pairID uint32) {
	nameID := s.nameOf(pairID)
	n := s.names.At(nameID)
	if n.mentions.n == 0 {
		return
	}
	s.changed = append(s.changed, nameID)
	if p := s.pairs.At(pairID); p.term != 0 && s.terms.At(p.term-1).filed.n > 0 {
		s.changedPairs = append(s.changedPairs, pairID)
	}
}

// markParentChanged calls markChanged for all pairs of a parent.
func (s *store) markParentChanged(parentID uint32) {
	for _, pairID := range s.sets.get(s.parents.At(parentID).labels) {
		s.markChanged(pairID)
	}
}

// sortChanged sorts the changed names, and reports whether there are any.
func (s *store) sortChanged() bool {
	slices.Sort(s.changed)
	s.changed = slices.Compact(s.changed)
	return len(s.changed) > 0
}

func (s *store) hasParents(it *item, names []string) bool {
	return slices.EqualFunc(s.sets.get(it.parents), names, func(p uint32, name string) bool {
		return *s.parents.Key(p) == name
	})
}
