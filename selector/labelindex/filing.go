// SPDX-License-Identifier: Apache-2.0

package labelindex

import "github.com/wayleave/wayleave/selector"

// filing is a way to file a query, and what it costs.
type filing struct {
	form   form
	label  string
	values []string // with formPairs
	// weight is how many items there are under the terms: each is a candidate of the query.
	weight int
	// others is how many queries are filed there. It breaks a tie: where selectors come before the
	// items, it distinguishes common labels from selective ones.
	others int
}

func (f filing) better(than filing) bool {
	return f.weight < than.weight || f.weight == than.weight && f.others < than.others
}

// choose returns the best way to file a selector as things stand.
func (s *store) choose(sel *selector.Selector) filing {
	if sel.Err() != nil {
		return filing{form: formPairs} // matches nothing
	}
	best := filing{form: formLoose}
	for _, r := range sel.Restrictions() {
		if !r.Present {
			continue
		}
		f := filing{form: formName, label: r.Label}
		switch {
		case r.Absent:
			return filing{form: formPairs}
		case r.OneOf != nil:
			f.form, f.values = formPairs, r.OneOf
		}
		s.weigh(&f)
		if best.form == formLoose || f.better(best) {
			best = f
		}
	}
	return best
}

// patienceOf returns how many misses make a query look for a better term at first: some for each
// value that it would have to look at, and perhaps to move.
func patienceOf(sel *selector.Selector) uint32 {
	values := 0
	for _, r := range sel.Restrictions() {
		if r.Present {
			values += 1 + len(r.OneOf)
		}
	}
	return uint32(max(minPatience, 4*values))
}

// weigh works out what a filing costs.
func (s *store) weigh(f *filing) {
	add := func(t *term, items set) {
		f.weight += int(items.n)
		if t != nil {
			f.weight += int(t.inherited)
			f.others += int(t.filed.n)
		}
	}
	nameID, _, ok := s.names.Find(f.label)
	if !ok {
		return
	}
	if f.form == formName {
		add(s.term(formName, nameID))
		return
	}
	for _, value := range f.values {
		if pairID, _, ok := s.pairs.Find(pairKey{nameID, value}); ok {
			add(s.term(formPairs, pairID))
		}
	}
}

// file puts a query under its terms.
func (s *store) file(id uint32, q *query, f filing) {
	q.form = f.form
	switch f.form {
	case formLoose:
		s.sets.add(&s.loose, id)
		for _, nameID := range q.names {
			s.sets.add(&s.names.At(nameID).loose, id)
		}
	case formName:
		nameID := s.internName(f.label)
		q.filed = []uint32{nameID}
		s.sets.add(&s.names.At(nameID).filed, id)
	case formPairs:
		q.filed = make([]uint32, 0, len(f.values))
		for _, value := range f.values {
			pairID := s.internPair(s.internName(f.label), value)
			q.filed = append(q.filed, pairID)
			s.sets.add(&s.termOf(pairID).filed, id)
		}
	}
}

// unfile takes a query away from its terms.
func (s *store) unfile(id uint32, q *query) {
	switch q.form {
	case formLoose:
		s.sets.remove(&s.loose, id)
		for _, nameID := range q.names {
			s.sets.remove(&s.names.At(nameID).loose, id)
		}
	case formName:
		s.sets.remove(&s.names.At(q.filed[0]).filed, id)
	case formPairs:
		for _, pairID := range q.filed {
			s.sets.remove(&s.termOf(pairID).filed, id)
			s.releasePair(pairID)
		}
	}
	q.filed = nil
}

// miss counts an item that was compared with the query and does not match. Where a query has many,
// its term may have become common since it was filed. How many it takes until another is looked for
// goes by what looking and moving cost, and each look that finds nothing makes the next come later,
// up to a limit, so that they cost less altogether than the comparisons.
func (s *store) miss(id uint32, q *query) {
	if q.misses++; q.misses == q.patience && q.form != formLoose {
		s.refileQueue = append(s.refileQueue, id)
	}
}

// refile moves the queries that were compared in vain too often, if another term is less than half
// as common. It comes last in a call: while items are compared, queries stay where they are.
func (s *store) refile() {
	for _, id := range s.refileQueue {
		q := s.queries.At(id)
		patience := patienceOf(q.selector)
		weight := 0
		for _, termID := range q.filed {
			t, items := s.term(q.form, termID)
			weight += int(items.n)
			if t != nil {
				weight += int(t.inherited)
			}
		}
		if f := s.choose(q.selector); 2*f.weight < weight {
			s.unfile(id, q)
			s.file(id, q, f)
			s.refiled++
		} else {
			patience = min(2*q.patience, maxPatience*patience)
		}
		q.misses, q.patience = 0, patience
	}
	s.refileQueue = s.refileQueue[:0]
}
