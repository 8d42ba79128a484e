// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"slices"

	"github.com/wayleave/wayleave/selector"
)

// query is a distinct selector with its ids and matches.
type query struct {
	selector  *selector.Selector
	ids       set      // selectors by number
	matches   set      // items
	names     []uint32 // names that the selector mentions
	form      form
	exact     bool     // every item with a term of filed matches
	filed     []uint32 // the names or pairs that the query is filed under
	misses    uint32   // items evaluated without a match since the query was filed
	missLimit uint32   // number of misses at which another term is looked for
	seen      uint64   // last epoch in which the query was evaluated
}

// form is the kind of terms that a query is filed under.
type form uint8

const (
	formLoose form = iota // none: the query needs no single label
	formName              // one label name
	formPairs             // pairs of one label with several values; none if the query never matches
)

const (
	minMissLimit       = 16 // lower limit of the initial missLimit
	maxMissLimitFactor = 8  // upper limit of missLimit, as a multiple of the initial one
)

// internQuery returns the id of a selector's query. If there is none, it creates one and evaluates
// it for all items of its terms. A new query must get a selector before the call ends.
func (s *store) internQuery(sel *selector.Selector) uint32 {
	text := sel.String()
	id, hash, ok := s.queries.Find(text)
	if ok {
		return id
	}
	id = s.queries.Add(text, hash)
	q := s.queries.At(id)
	q.selector, q.missLimit = sel, initialMissLimit(sel)
	terms, op := 0, selector.Op(0)
	for t := range sel.Terms() {
		terms, op = terms+1, t.Op
		if t.Label != "" {
			q.names = append(q.names, s.internName(t.Label))
		}
	}
	slices.Sort(q.names)
	q.names = slices.Clip(slices.Compact(q.names))
	for _, nameID := range q.names {
		s.sets.add(&s.names.At(nameID).mentions, id)
	}
	f := s.choose(sel)
	q.exact = terms == 1 && (f.form == formPairs || f.form == formName && op == selector.OpHas)
	s.file(id, q, f)
	s.scan(id, q)
	return id
}

// dropQuery removes a query without selectors.
func (s *store) dropQuery(id uint32) {
	q := s.queries.At(id)
	s.matches -= int(q.matches.n)
	s.sets.clear(&q.matches)
	s.unfile(id, q)
	for _, nameID := range q.names {
		s.sets.remove(&s.names.At(nameID).mentions, id)
		s.releaseName(nameID)
	}
	s.queries.Remove(id)
	s.view.reset()
}

// scan adds the matches of a new query.
func (s *store) scan(id uint32, q *query) {
	s.view.reset()
	s.candidates = s.itemsOf(s.candidates[:0], q)
	for _, itemID := range s.candidates {
		s.view.load(s, itemID)
		if !q.selector.Match(&s.view) {
			continue
		}
		s.sets.add(&q.matches, itemID)
		s.matches++
	}
	s.evals += uint64(len(s.candidates))
}

// itemsOf appends the items that a query may match, sorted.
func (s *store) itemsOf(buf []uint32, q *query) []uint32 {
	if q.form == formLoose {
		return s.itemIDs.AppendTo(buf)
	}
	mixed := len(q.filed) > 1
	for _, id := range q.filed {
		t, items := s.term(q.form, id)
		buf = s.sets.appendTo(buf, items)
		if t == nil || t.parents.n == 0 {
			continue
		}
		mixed = true
		s.ids = s.sets.appendTo(s.ids[:0], t.parents)
		for _, parentID := range s.ids {
			buf = s.sets.appendTo(buf, s.parents.At(parentID).items)
		}
	}
	if mixed {
		slices.Sort(buf)
		buf = slices.Compact(buf)
	}
	return buf
}

// term returns the term of an id in a query's filed list, and the items that have it as an own
// label. The term is nil for a pair that has none.
func (s *store) term(f form, id uint32) (*term, set) {
	if f == formName {
		n := s.names.At(id)
		return &n.term, n.items
	}
	p := s.pairs.At(id)
	if p.term == 0 {
		return nil, p.items
	}
	return s.terms.At(p.term - 1), p.items
}
