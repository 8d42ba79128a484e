// SPDX-License-Identifier: Apache-2.0

package labelindex

import "github.com/wayleave/wayleave/selector"

// filing is a way to file a query, and its cost.
type filing struct {
	form   form
	label  string
	values []string // for formPairs
	// items is the number of items of the terms. The query is evaluated for each of them.
	items int
	// queries is the number of queries that are filed under the terms. It decides between terms
	// with equally many items: selectors that are added before any item are then filed under
	// different terms.
	queries int
}

func (f filing) better(than filing) bool {
	return f.items < than.items || f.items == than.items && f.queries < than.queries
}

// choose returns the filing of a selector with the lowest cost at present.
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
		s.countCost(&f)
		if best.form == formLoose || f.better(best) {
			best = f
		}
	}
	return best
}

// initialMissLimit returns the first missLimit of a query: some misses for each label and value
// that it needs. These labels and values may have to be looked up and moved.
func initialMissLimit(sel *selector.Selector) uint32 {
	values := 0
	for _, r := range sel.Restrictions() {
		if r.Present {
			values += 1 + len(r.OneOf)
		}
	}
	return uint32(max(minMissLimit, 4*values))
}

// countCost sets the cost of a filing.
func (s *store) countCost(f *filing) {
	add := func(t *term, items set) {
		f.items += int(items.n)
		if t != nil {
			f.items += int(t.inherited)
			f.queries += int(t.filed.n)
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

// file files a query under the terms of a filing.
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

// unfile removes a query from its terms.
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

// countMiss counts an item that was evaluated with the query and does not match. When the count
// reaches missLimit, the query is refiled at the end of the call: its term may have become common.
// The limit is in proportion to the cost of refiling. It doubles, up to a maximum, each time that
// no better term is found. So refiling costs less than the evaluations.
func (s *store) countMiss(id uint32, q *query) {
	if q.misses++; q.misses == q.missLimit && q.form != formLoose {
		s.refileQueue = append(s.refileQueue, id)
	}
}

// refile files the queries that have reached their miss limit under another term, if that has less
// than half as many items. It is called at the end of a call, because queries must not move during
// evaluation.
func (s *store) refile() {
	for _, id := range s.refileQueue {
		q := s.queries.At(id)
		missLimit := initialMissLimit(q.selector)
		count := 0
		for _, termID := range q.filed {
			t, items := s.term(q.form, termID)
			count += int(items.n)
			if t != nil {
				count += int(t.inherited)
			}
		}
		if f := s.choose(q.selector); 2*f.items < count {
			s.unfile(id, q)
			s.file(id, q, f)
			s.refiled++
		} else {
			missLimit = min(2*q.missLimit, maxMissLimitFactor*missLimit)
		}
		q.misses, q.missLimit = 0, missLimit
	}
	s.refileQueue = s.refileQueue[:0]
}
