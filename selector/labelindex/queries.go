// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"slices"

	"github.com/wayleave/wayleave/selector"
)

// query is one selector, whatever the ids it is held under.
type query struct {
	selector *selector.Selector
	ids      set      // the selector ids
	matches  set      // items
	names    []uint32 // that it mentions
	form     form
	exact    bool     // an item that shows a term it is filed under matches
	filed    []uint32 // the names or pairs it is filed under
	misses   uint32   // candidates that did not match since the query was filed
	patience uint32   // misses after which another term is looked for
	seen     uint64   // epoch in which it was last evaluated
}

// form determines what a query is filed under.
type form uint8

const (
	formLoose form = iota // nothing: no label is needed for a match
	formName              // one label name, in filed
	formPairs             // one label with one of several values, in filed; none if nothing can match
)

const (
	minPatience = 16 // useless evaluations that make a query look for a better term, at least
	maxPatience = 8  // times the patience that it has at first
)

// internQuery returns the id of a selector's query, made and evaluated on first use. A new one must
// be put to use before the call ends.
func (s *store) internQuery(sel *selector.Selector) uint32 {
	text := sel.String()
	id, hash, ok := s.queries.Find(text)
	if ok {
		return id
	}
	id = s.queries.Add(text, hash)
	q := s.queries.At(id)
	q.selector, q.patience = sel, patienceOf(sel)
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

// dropQuery forgets a query that is held under no id.
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
	s.view.forget()
}

// scan finds the items that a new query matches.
func (s *store) scan(id uint32, q *query) {
	s.view.forget()
	s.candidates = s.itemsOf(s.candidates[:0], q)
	for _, itemID := range s.candidates {
		s.view.look(s, itemID)
		if !q.selector.Match(&s.view) {
			continue
		}
		s.sets.add(&q.matches, itemID)
		s.matches++
	}
	s.evals += uint64(len(s.candidates))
}

// itemsOf appends the items that a query can match, sorted.
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

// term returns a term by its number, nil for a pair without one, and the items that have it
// themselves.
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
