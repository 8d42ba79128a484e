// SPDX-License-Identifier: Apache-2.0

package labelindex

import "slices"

// Matches are stored by query: each query has the set of items that it matches. An item has no list
// of queries, which would be long if thousands of selectors match it. A query is filed under a
// label that it needs, or is in the list of loose queries. So the queries that an item may match
// are found by its labels, and in this list.

// addMatches adds the matches of a new item.
func (s *store) addMatches(id uint32) {
	s.candidates = s.candidatesOf(s.candidates[:0], id)
	for _, queryID := range s.candidates {
		q := s.queries.At(queryID)
		s.evals++
		if q.exact || q.selector.Match(&s.view) {
			s.startMatch(queryID, q, id)
		} else {
			s.countMiss(queryID, q)
		}
	}
}

// removeMatches removes the matches of an item. The item must still have its labels.
func (s *store) removeMatches(id uint32) {
	s.candidates = s.candidatesOf(s.candidates[:0], id)
	for _, queryID := range s.candidates {
		s.stopMatch(queryID, s.queries.At(queryID), id)
	}
}

// updateMatches updates the matches of an item after the names in changed may have got other
// values. It evaluates only queries that mention one of these names. If more than fewMentions
// queries do, it evaluates only those that are filed under labels that the item has or had.
func (s *store) updateMatches(id uint32) {
	s.view.load(s, id)
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
	epoch := s.nextEpoch()
	for _, queryID := range s.candidates {
		q := s.queries.At(queryID)
		if q.seen == epoch || filed && !overlap(q.names, s.changed) {
			continue
		}
		q.seen = epoch
		s.evals++
		switch {
		case q.selector.Match(&s.view):
			s.startMatch(queryID, q, id)
		case !s.stopMatch(queryID, q, id):
			s.countMiss(queryID, q)
		}
	}
}

// fewMentions is the number of queries up to which evaluating all of them is faster than searching
// the item's labels.
const fewMentions = 16

// candidatesOf appends the queries that an item may match, each once, and loads the item into the
// view.
func (s *store) candidatesOf(buf []uint32, id uint32) []uint32 {
	s.view.load(s, id)
	epoch := s.nextEpoch()
	buf = s.sets.appendTo(buf, s.loose)
	for pairs := range s.view.pairs() {
		for _, pairID := range pairs {
			// Of several values of a name, only the first counts: it hides the others.
			if n := s.names.At(s.nameOf(pairID)); n.mentions.n > 0 && n.seen != epoch {
				n.seen = epoch
				buf = s.sets.appendTo(s.sets.appendTo(buf, n.filed), s.filedUnder(pairID))
			}
		}
	}
	return buf
}

// affected finds the queries that mention a changed name and that the item in view may match, or
// may have matched before the change. It collects them in candidates. This list may include other
// queries, and a query several times. A query that the item matched is loose or filed. If filed, it
// is under a term that the item still has, or under a changed name with a removed or hidden value.
// If there are limit candidates or more, affected reports false.
func (s *store) affected(limit int) bool {
	epoch := s.nextEpoch()
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
	for _, pairID := range s.changedPairs {
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

// startMatch adds a match and records the change, if the match is new.
func (s *store) startMatch(queryID uint32, q *query, id uint32) {
	if s.sets.add(&q.matches, id) {
		s.changes = append(s.changes, newChange(queryID, id, true))
		s.matches++
	}
}

// stopMatch removes a match and records the change. It reports whether there was a match.
func (s *store) stopMatch(queryID uint32, q *query, id uint32) bool {
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
