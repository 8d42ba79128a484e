// SPDX-License-Identifier: Apache-2.0

package labelindex

import "slices"

// evaluate brings the matches of an item up to date with its labels. For a fresh item all queries count
// that it can match; else those that mention a name in changed, and no others need be right.
func (s *store) evaluate(id uint32, fresh bool) {
	it, epoch := s.item.at(id), s.newest()
	s.candidates = s.candidates[:0]
	s.view.look(s, id)
	s.collect(s.view.own, epoch)
	for _, parentID := range s.view.parents {
		s.collect(s.sets.get(s.parent.at(parentID).labels), epoch)
	}
	if fresh {
		s.candidates = s.sets.appendTo(s.candidates, s.loose)
	} else {
		for _, nameID := range s.changed {
			s.candidates = s.sets.appendTo(s.candidates, s.name.at(nameID).loose)
		}
	}
	s.next = s.next[:0]
	for _, queryID := range s.candidates {
		q := s.query.at(queryID)
		if q.seen == epoch {
			continue
		}
		q.seen = epoch
		s.evals++
		if q.exact || q.selector.Match(&s.view) {
			s.next = append(s.next, queryID)
		} else {
			s.miss(queryID, q)
		}
	}
	for _, queryID := range s.sets.get(it.matches) {
		if q := s.query.at(queryID); q.seen != epoch && q.form == formLoose {
			s.next = append(s.next, queryID) // mentions nothing that changed
		}
	}
	slices.Sort(s.next)
	s.rematch(id, it, s.next)
}

// collect adds the queries to the candidates that are filed under these pairs and their names, except
// for names that were met before in this epoch: the item has another label of that name, which hides this one.
func (s *store) collect(pairs []uint32, epoch uint64) {
	for _, pairID := range pairs {
		n := s.name.at(s.nameOf(pairID))
		if n.mentions == 0 || n.seen == epoch {
			continue
		}
		n.seen = epoch
		if n.filed.n > 0 {
			s.candidates = s.sets.appendTo(s.candidates, n.filed)
		}
		if p := s.pair.at(pairID); p.term != 0 {
			s.candidates = s.sets.appendTo(s.candidates, s.terms.at(p.term-1).filed)
		}
	}
}

// rematch replaces the matches of an item and notes what changes.
func (s *store) rematch(id uint32, it *item, matches []uint32) {
	before := s.sets.get(it.matches)
	if slices.Equal(before, matches) {
		return
	}
	only(before, matches, func(queryID uint32) {
		s.sets.remove(&s.query.at(queryID).matches, id)
		s.changes = append(s.changes, newChange(queryID, id, false))
		s.matches--
	})
	only(matches, before, func(queryID uint32) {
		s.sets.add(&s.query.at(queryID).matches, id)
		s.changes = append(s.changes, newChange(queryID, id, true))
		s.matches++
	})
	s.sets.put(&it.matches, matches)
}
