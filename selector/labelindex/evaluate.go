// SPDX-License-Identifier: Apache-2.0

package labelindex

import "slices"

// What an item matches is known from the side of the queries alone: each has the set of its items.
// The queries that an item can match are found by its labels, since a query is filed under one that
// it needs, and by the list of the loose ones. So an item that thousands of selectors match keeps
// no list of them that would have to be mended with every change.

// enter finds the matches of a new item.
func (s *store) enter(id uint32) {
	s.candidates = s.candidatesOf(s.candidates[:0], id)
	for _, queryID := range s.candidates {
		q := s.queries.At(queryID)
		s.evals++
		if q.exact || q.selector.Match(&s.view) {
			s.start(queryID, q, id)
		} else {
			s.miss(queryID, q)
		}
	}
}

// leave ends the matches of an item, whose labels must still be there.
func (s *store) leave(id uint32) {
	s.candidates = s.candidatesOf(s.candidates[:0], id)
	for _, queryID := range s.candidates {
		s.stop(queryID, s.queries.At(queryID), id)
	}
}

// revise brings the matches of an item up to date after the names in changed have, or may have,
// other values than before. Only queries that mention one of them count. They are found by the
// mentioning where those are few, otherwise by the labels that the item has or had.
func (s *store) revise(id uint32) {
	s.view.look(s, id)
	mentions := 0
	for _, nameID := range s.changed {
		mentions += int(s.names.At(nameID).mentions.n)
	}
	filed := mentions > fewMentions && s.affected(mentions)
	if !filed {
		s.candidates = s.candidates[:0]
		for _, nameID := range s.changed {
			s.candidates = s.sets.appendTo(s.candidates, s.names.At(nameID).mentions)
		}
	}
	epoch := s.newest()
	for _, queryID := range s.candidates {
		q := s.queries.At(queryID)
		if q.seen == epoch || filed && !overlap(q.names, s.changed) {
			continue
		}
		q.seen = epoch
		s.evals++
		switch {
		case q.selector.Match(&s.view):
			s.start(queryID, q, id)
		case !s.stop(queryID, q, id):
			s.miss(queryID, q)
		}
	}
}

// fewMentions is how many queries are compared sooner than the item's labels are searched for
// fewer.
const fewMentions = 16

// candidatesOf appends the queries that an item can match, each once, and turns the view to the
// item.
func (s *store) candidatesOf(buf []uint32, id uint32) []uint32 {
	s.view.look(s, id)
	epoch := s.newest()
	buf = s.sets.appendTo(buf, s.loose)
	for pairs := range s.view.pairs() {
		for _, pairID := range pairs {
			// An own label hides an inherited one, and that of one parent another's.
			if n := s.names.At(s.nameOf(pairID)); n.mentions.n > 0 && n.seen != epoch {
				n.seen = epoch
				buf = s.sets.appendTo(s.sets.appendTo(buf, n.filed), s.filedUnder(pairID))
			}
		}
	}
	return buf
}

// affected makes candidates of the queries that the item in view may match now or may have matched,
// as far as they mention a changed name, and of others; of some several times. A query that the
// item matched is filed under what the item shows still, or under a changed name: with a value that
// went, or with one that is hidden now. It gives up, and reports false, before there are as many as
// limit.
func (s *store) affected(limit int) bool {
	epoch := s.newest()
	s.candidates = s.candidates[:0]
	appendUpTo := func(t set) bool {
		if len(s.candidates)+int(t.n) >= limit {
			return false
		}
		s.candidates = s.sets.appendTo(s.candidates, t)
		return true
	}
	for _, nameID := range s.changed {
		n := s.names.At(nameID)
		n.seen = epoch
		if !appendUpTo(n.loose) || !appendUpTo(n.filed) {
			return false
		}
	}
	for _, pairID := range s.gone {
		if !appendUpTo(s.filedUnder(pairID)) {
			return false
		}
	}
	for pairs := range s.view.pairs() {
		for _, pairID := range pairs {
			nameID := s.nameOf(pairID)
			n := s.names.At(nameID)
			if n.mentions.n == 0 {
				continue
			}
			if n.seen == epoch {
				if _, changed := slices.BinarySearch(s.changed, nameID); !changed {
					continue // hidden
				}
			} else if n.seen = epoch; !appendUpTo(n.filed) {
				return false
			}
			if !appendUpTo(s.filedUnder(pairID)) {
				return false
			}
		}
	}
	return true
}

// filedUnder returns the queries that are filed under a pair.
func (s *store) filedUnder(pairID uint32) set {
	if p := s.pairs.At(pairID); p.term != 0 {
		return s.terms.At(p.term - 1).filed
	}
	return set{}
}

// start notes a match, if it is new.
func (s *store) start(queryID uint32, q *query, id uint32) {
	if s.sets.add(&q.matches, id) {
		s.changes = append(s.changes, newChange(queryID, id, true))
		s.matches++
	}
}

// stop ends a match. It reports whether there was one.
func (s *store) stop(queryID uint32, q *query, id uint32) bool {
	if !s.sets.remove(&q.matches, id) {
		return false
	}
	s.changes = append(s.changes, newChange(queryID, id, false))
	s.matches--
	return true
}

// overlap reports whether two sorted lists have an id in common.
func overlap(a, b []uint32) bool {
	for _, id := range a {
		if _, found := slices.BinarySearch(b, id); found {
			return true
		}
	}
	return false
}
