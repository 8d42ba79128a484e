// SPDX-License-Identifier: Apache-2.0

package labelindex

import "slices"

// setItem gives an item its labels and parents and finds out which matches that changes.
func (s *store) setItem(id uint32, fresh bool, labels map[string]string, parents []string) {
	if fresh {
		s.item.grow(id)
	}
	it := s.item.at(id)
	if !fresh && s.equal(s.sets.get(it.labels), labels) && s.hasParents(it, parents) {
		return
	}
	s.incoming = s.internAll(s.incoming[:0], labels)
	own := len(s.incoming)
	for _, name := range parents {
		s.incoming = append(s.incoming, s.internParent(name))
	}
	s.changed = s.changed[:0]
	s.relabel(id, it, s.incoming[:own])
	s.adopt(id, it, s.incoming[own:])
	if s.queries.len() > 0 && (fresh || len(s.changed) > 0) {
		s.evaluate(id, fresh)
	}
}

// dropItem stops all matches of an item and takes away all that refers to it.
func (s *store) dropItem(id uint32) {
	it := s.item.at(id)
	for _, queryID := range s.sets.get(it.matches) {
		s.sets.remove(&s.query.at(queryID).matches, id)
		s.changes = append(s.changes, newChange(queryID, id, false))
		s.matches--
	}
	s.sets.resize(&it.matches, 0)
	s.relabel(id, it, nil)
	s.adopt(id, it, nil)
}

// relabel replaces the pairs of an item.
func (s *store) relabel(id uint32, it *item, pairs []uint32) {
	before := s.sets.get(it.labels)
	// All that goes first: the name of what goes may be the name of what comes.
	only(before, pairs, func(pairID uint32) {
		s.takeItem(id, pairID)
		s.touch(s.nameOf(pairID))
		s.releasePair(pairID)
	})
	only(pairs, before, func(pairID uint32) {
		s.giveItem(id, pairID)
		s.touch(s.nameOf(pairID))
	})
	s.sets.put(&it.labels, pairs)
}

// adopt replaces the parents of an item.
func (s *store) adopt(id uint32, it *item, parents []uint32) {
	before := s.sets.get(it.parents)
	if slices.Equal(before, parents) {
		return
	}
	for _, p := range before {
		s.touchAll(p)
	}
	for _, p := range parents {
		s.touchAll(p)
		if s.sets.add(&s.parent.at(p).items, id) {
			s.inherit(p, +1)
		}
	}
	for i, p := range before {
		if slices.Index(before, p) < i || slices.Contains(parents, p) {
			continue // named twice, or named still
		}
		s.sets.remove(&s.parent.at(p).items, id)
		s.inherit(p, -1)
		s.releaseParent(p)
	}
	s.sets.put(&it.parents, parents)
}

// touch notes that a name may have another value now, if that is of interest to a query.
func (s *store) touch(nameID uint32) {
	if s.name.at(nameID).mentions > 0 {
		s.changed = append(s.changed, nameID)
	}
}

// touchAll does so for all names of a parent.
func (s *store) touchAll(parentID uint32) {
	for _, pairID := range s.sets.get(s.parent.at(parentID).labels) {
		s.touch(s.nameOf(pairID))
	}
}

func (s *store) hasParents(it *item, names []string) bool {
	return slices.EqualFunc(s.sets.get(it.parents), names, func(p uint32, name string) bool { return s.parents.key(p) == name })
}
