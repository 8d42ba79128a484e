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

// Config configures an Index with items identified by I and selectors identified by S.
type Config[I, S comparable] struct {
	// CompareItems orders the ids of items, as cmp.Compare does. It returns zero only for equal
	// ids. Required.
	CompareItems func(a, b I) int
	// CompareSelectors orders the ids of selectors, as cmp.Compare does. It returns zero only for
	// equal ids. Required.
	CompareSelectors func(a, b S) int
	// Started is called for each match that starts. Optional.
	Started func(sel S, item I)
	// Stopped is called for each match that stops. Optional.
	Stopped func(sel S, item I)
}

func (c Config[I, S]) validate() error {
	var errs []error
	if c.CompareItems == nil {
		errs = append(errs, errors.New("labelindex: Config.CompareItems: required"))
	}
	if c.CompareSelectors == nil {
		errs = append(errs, errors.New("labelindex: Config.CompareSelectors: required"))
	}
	return errors.Join(errs...)
}

// Index matches items identified by I with selectors identified by S. New returns one.
//
// It is not safe for concurrent use.
type Index[I, S comparable] struct {
	config    Config[I, S]
	store     store
	items     idtable.Keys[I]
	selectors idtable.Map[S, uint32] // the query of each selector
	order     order[I]
	runs      []run
}

// New returns an empty index. It fails if a required field of cfg is missing.
func New[I, S comparable](cfg Config[I, S]) (*Index[I, S], error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	seed := maphash.MakeSeed()
	x := &Index[I, S]{config: cfg, items: idtable.NewKeys(hasher[I](seed)), selectors: newMap[S, uint32](seed)}
	x.store = newStore(seed, &x.items.IDs)
	return x, nil
}

// UpdateItem adds an item, or replaces its labels and parents. It copies both. For a new item, it
// evaluates only the selectors that the item could match. For example, it evaluates `a == "b"` only
// if the item has the label a, and `!has(a)` in any case. For an existing item, UpdateItem
// evaluates only the selectors that mention a changed label.
func (x *Index[I, S]) UpdateItem(id I, labels map[string]string, parents []string) {
	item, hash, ok := x.items.Find(id)
	if !ok {
		item = x.items.Add(id, hash)
		x.order.markDirty(item)
	}
	x.store.setItem(item, !ok, labels, parents)
	x.report()
}

// DeleteItem removes an item. The time is linear in the number of its labels plus the number of
// selectors that require one of these labels, or no particular label.
func (x *Index[I, S]) DeleteItem(id I) {
	item, _, ok := x.items.Find(id)
	if !ok {
		return
	}
	x.store.dropItem(item)
	defer func() { // also if a callback panics
		x.order.markDirty(item)
		x.items.Remove(item)
		x.store.item.Clear(item, &x.items.IDs)
	}()
	x.report()
}

// UpdateParent adds a parent or replaces its labels. It copies the labels. UpdateParent evaluates
// only the selectors that mention a changed label, for all items that name the parent.
func (x *Index[I, S]) UpdateParent(name string, labels map[string]string) {
	x.store.setParent(name, labels)
	x.report()
}

// DeleteParent removes a parent. Items that name it lose the labels that they inherit from it. They
// inherit again if the parent is added again.
func (x *Index[I, S]) DeleteParent(name string) {
	x.store.dropParent(name)
	x.report()
}

// UpdateSelector adds a selector or replaces it. If the selector cannot match without certain
// labels, UpdateSelector evaluates it only for the items that have the rarest of these labels.
// Otherwise it evaluates the selector for all items. If another id has an equal selector, the
// selector is not evaluated again. A nil or invalid selector matches nothing.
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
			x.store.recordChange(item, true)
		}
	} else {
		old := x.store.matchesOf(before)
		difference(old, matches, func(item uint32) { x.store.recordChange(item, false) })
		difference(matches, old, func(item uint32) { x.store.recordChange(item, true) })
		x.unref(before, number)
	}
	x.reportOne(number)
}

// DeleteSelector removes a selector. It takes time linear in the number of its matches.
func (x *Index[I, S]) DeleteSelector(id S) {
	number, _, ok := x.selectors.Find(id)
	if !ok {
		return
	}
	held := *x.selectors.At(number)
	for _, item := range x.store.matchesOf(held) {
		x.store.recordChange(item, false)
	}
	x.unref(held, number)
	defer func() { // also if a callback panics
		x.selectors.Remove(number)
	}()
	x.reportOne(number)
}

// unref removes a selector from a query, and removes the query if it has no other selector.
func (x *Index[I, S]) unref(queryID, number uint32) {
	q := x.store.queries.At(queryID)
	x.store.sets.remove(&q.ids, number)
	if q.ids.n == 0 {
		x.store.dropQuery(queryID)
	}
}

// Items iterates over the items that the selector matches, sorted. It iterates over a snapshot from
// the time of the call.
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

// Selectors iterates over the selectors that match the item, sorted. It iterates over a snapshot
// from the time of the call. The time is linear in the number of selectors that require one of the
// item's labels, or no particular label.
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
