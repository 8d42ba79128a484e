// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"errors"
	"hash/maphash"
	"iter"
	"slices"

	"github.com/wayleave/wayleave/internal/idtable"
	"github.com/wayleave/wayleave/selector"
)

// Config configures an Index with items named by I and selectors named by S.
//
// A Config is a plain value and is not changed by the index.
type Config[I, S comparable] struct {
	// CompareItems orders items: negative, zero, positive as in cmp.Compare. Zero only for equal
	// ids. Required.
	CompareItems func(a, b I) int
	// CompareSelectors orders selectors likewise. Required.
	CompareSelectors func(a, b S) int
	// Started is called for each match that begins. Optional.
	Started func(sel S, item I)
	// Stopped is called for each match that ends. Optional.
	Stopped func(sel S, item I)
}

func (c Config[I, S]) validate() error {
	var errs []error
	if c.CompareItems == nil {
		errs = append(errs, errors.New("labelindex: CompareItems is required"))
	}
	if c.CompareSelectors == nil {
		errs = append(errs, errors.New("labelindex: CompareSelectors is required"))
	}
	return errors.Join(errs...)
}

// Index matches items named by I with selectors named by S. Get one from New.
//
// It is not safe for concurrent use.
type Index[I, S comparable] struct {
	config    Config[I, S]
	store     store
	items     idtable.Keys[I]
	selectors idtable.Map[S, uint32] // with the query that each is
	order     order[I]
	runs      []run
}

// New returns an empty index. It fails where Config lacks a required field.
func New[I, S comparable](cfg Config[I, S]) (*Index[I, S], error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	seed := maphash.MakeSeed()
	x := &Index[I, S]{config: cfg, items: idtable.NewKeys(hasher[I](seed)), selectors: newMap[S, uint32](seed)}
	x.store = newStore(seed, &x.items.IDs)
	return x, nil
}

// UpdateItem adds an item or replaces its labels and parents. Both are copied. A new item is
// compared with the selectors that need a label it has and with those that need none; one that is
// there already, only if a selector mentions a label that changes.
func (x *Index[I, S]) UpdateItem(id I, labels map[string]string, parents []string) {
	item, hash, ok := x.items.Find(id)
	if !ok {
		item = x.items.Add(id, hash)
		x.order.touch(item)
	}
	x.store.setItem(item, !ok, labels, parents)
	x.report()
}

// DeleteItem removes an item. The cost is in proportion to its labels and the selectors that they
// make candidates, as when it came.
func (x *Index[I, S]) DeleteItem(id I) {
	item, _, ok := x.items.Find(id)
	if !ok {
		return
	}
	x.store.dropItem(item)
	defer func() { // also if a callback panics
		x.order.touch(item)
		x.items.Remove(item)
		x.store.item.Clear(item, &x.items.IDs)
	}()
	x.report()
}

// UpdateParent adds a parent or replaces its labels, which are copied. The items that name the
// parent are looked at only if a selector mentions a label that changes.
func (x *Index[I, S]) UpdateParent(name string, labels map[string]string) {
	x.store.setParent(name, labels)
	x.report()
}

// DeleteParent removes a parent. Items that name it lose the labels they inherited from it and get
// them back when it returns.
func (x *Index[I, S]) DeleteParent(name string) {
	x.store.dropParent(name)
	x.report()
}

// UpdateSelector adds a selector or replaces it. It is compared with the items that have the rarest
// of the labels it needs, or with all if it needs none. If another id holds an equal selector
// already, only the matches are reported. A nil or invalid selector matches nothing.
func (x *Index[I, S]) UpdateSelector(id S, sel *selector.Selector) {
	after := x.store.internQuery(sel)
	number, hash, known := x.selectors.Find(id)
	if !known {
		number = x.selectors.Add(id, hash)
	}
	held := x.selectors.At(number)
	before := *held
	if known && before == after {
		return
	}
	*held = after
	x.store.sets.add(&x.store.queries.At(after).ids, number)
	matches := x.store.matchesOf(after)
	if !known {
		x.store.changes = slices.Grow(x.store.changes, len(matches))
		for _, item := range matches {
			x.store.note(item, true)
		}
	} else {
		old := x.store.matchesOf(before)
		only(old, matches, func(item uint32) { x.store.note(item, false) })
		only(matches, old, func(item uint32) { x.store.note(item, true) })
		x.drop(before, number)
	}
	x.reportOne(number)
}

// DeleteSelector removes a selector. The cost is in proportion to its matches.
func (x *Index[I, S]) DeleteSelector(id S) {
	number, _, ok := x.selectors.Find(id)
	if !ok {
		return
	}
	held := *x.selectors.At(number)
	for _, item := range x.store.matchesOf(held) {
		x.store.note(item, false)
	}
	x.drop(held, number)
	defer func() { // also if a callback panics
		x.selectors.Remove(number)
	}()
	x.reportOne(number)
}

// drop takes a selector from a query, and the query away after the last one.
func (x *Index[I, S]) drop(queryID, number uint32) {
	q := x.store.queries.At(queryID)
	x.store.sets.remove(&q.ids, number)
	if q.ids.n == 0 {
		x.store.dropQuery(queryID)
	}
}

// Items returns the items that the selector matches, sorted, as they are when it is called.
func (x *Index[I, S]) Items(sel S) iter.Seq[I] {
	number, _, ok := x.selectors.Find(sel)
	if !ok {
		return slices.Values[[]I](nil)
	}
	matches := x.store.matchesOf(*x.selectors.At(number))
	ids := make([]I, len(matches))
	for i, item := range matches {
		ids[i] = *x.items.Key(item)
	}
	slices.SortFunc(ids, x.config.CompareItems)
	return slices.Values(ids)
}

// Selectors returns the selectors that match the item, sorted, as they are when it is called. The
// cost is in proportion to the selectors that the item's labels make candidates and to those that
// need no label.
func (x *Index[I, S]) Selectors(item I) iter.Seq[S] {
	id, _, ok := x.items.Find(item)
	if !ok {
		return slices.Values[[]S](nil)
	}
	var numbers []uint32
	for _, queryID := range x.store.queriesOf(id) {
		numbers = x.store.sets.appendTo(numbers, x.store.queries.At(queryID).ids)
	}
	ids := make([]S, len(numbers))
	for i, number := range numbers {
		ids[i] = *x.selectors.Key(number)
	}
	slices.SortFunc(ids, x.config.CompareSelectors)
	return slices.Values(ids)
}
