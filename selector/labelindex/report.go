// SPDX-License-Identifier: Apache-2.0

package labelindex

import "slices"

// run is the changes of one selector: those of its query.
type run struct {
	selector uint32
	changes  []change
}

// recordChange records a change of the only selector that changes in this call.
func (s *store) recordChange(itemID uint32, started bool) {
	s.changes = append(s.changes, newChange(0, itemID, started))
}

// matchesOf returns the items that a query matches, sorted by number.
func (s *store) matchesOf(queryID uint32) []uint32 {
	return s.sets.appendTo(nil, s.queries.At(queryID).matches)
}

// queriesOf returns the queries that match an item.
func (s *store) queriesOf(id uint32) []uint32 {
	return slices.DeleteFunc(s.candidatesOf(nil, id), func(queryID uint32) bool {
		return !s.sets.has(s.queries.At(queryID).matches, id)
	})
}

// report calls the callbacks for the changes of a call. The index is already in its new state. The
// changes have no duplicates. The items of a query are sorted once for all of its selectors.
func (x *Index[I, S]) report() {
	defer x.store.releaseBuffers() // also if a callback panics
	changes := x.store.changes
	slices.Sort(changes)
	x.runs = x.runs[:0]
	for len(changes) > 0 {
		queryID := changes[0].query()
		n := 1
		for n < len(changes) && changes[n].query() == queryID {
			n++
		}
		x.order.sort(changes[:n], &x.items, x.config.CompareItems)
		x.store.ids = x.store.sets.appendTo(x.store.ids[:0], x.store.queries.At(queryID).ids)
		for _, number := range x.store.ids {
			x.runs = append(x.runs, run{number, changes[:n]})
		}
		changes = changes[n:]
	}
	if len(x.runs) > 1 {
		slices.SortFunc(x.runs, func(a, b run) int {
			return x.config.CompareSelectors(*x.selectors.Key(a.selector), *x.selectors.Key(b.selector))
		})
	}
	for _, r := range x.runs {
		x.notify(r)
	}
	if cap(x.runs) > maxBuffer {
		x.runs = nil
	}
	clear(x.runs)
}

// reportOne is report for a call that changes the matches of one selector only.
func (x *Index[I, S]) reportOne(number uint32) {
	defer x.store.releaseBuffers()
	x.order.sort(x.store.changes, &x.items, x.config.CompareItems)
	x.notify(run{number, x.store.changes})
}

func (x *Index[I, S]) notify(r run) {
	sel := *x.selectors.Key(r.selector)
	for _, c := range r.changes {
		callback := x.config.Stopped
		if c.started() {
			callback = x.config.Started
		}
		if callback != nil {
			callback(sel, *x.items.Key(c.item()))
		}
	}
}
