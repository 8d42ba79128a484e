// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/selector"
)

// Config says how an Index with items named by I and selectors named by S orders and reports.
//
// A Config is a plain value and is not changed by the index.
type Config[I, S comparable] struct {
	// CompareItems orders items: negative, zero, positive as in cmp.Compare. Zero only for equal ids. Required.
	CompareItems func(a, b I) int
	// CompareSelectors orders selectors likewise. Required.
	CompareSelectors func(a, b S) int
	// Started is told of each match that begins. Nil means nobody wants to know.
	Started func(sel S, item I)
	// Stopped is told of each match that ends. Nil means nobody wants to know.
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
	items     map[I]*item[I, S]
	parents   map[string]*parent[I, S]
	selectors map[S]*query[I, S]
	queries   map[string]*query[I, S] // by canonical form
	changes   []change[I, S]          // of the call in progress
}

// item is a labelled object. It implements selector.Labels with inheritance.
type item[I, S comparable] struct {
	id      I
	labels  map[string]string
	parents []*parent[I, S]
	matches map[*query[I, S]]struct{}
}

// parent has labels for its items. It is kept as long as it exists or is named by an item.
type parent[I, S comparable] struct {
	name   string
	exists bool
	labels map[string]string
	items  map[*item[I, S]]struct{}
}

// query is one selector, shared by all ids that it is held under.
type query[I, S comparable] struct {
	selector *selector.Selector
	ids      map[S]struct{}
	matches  map[*item[I, S]]struct{}
}

// change is one match that started or stopped.
type change[I, S comparable] struct {
	selector S
	item     I
	started  bool
}

// New returns an empty index. It fails where Config lacks a required field.
func New[I, S comparable](cfg Config[I, S]) (*Index[I, S], error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Index[I, S]{
		config:    cfg,
		items:     map[I]*item[I, S]{},
		parents:   map[string]*parent[I, S]{},
		selectors: map[S]*query[I, S]{},
		queries:   map[string]*query[I, S]{},
	}, nil
}

// Get returns the label's value as selectors see it: the item's own, else that of the
// first parent that has it.
func (i *item[I, S]) Get(name string) (string, bool) {
	if value, ok := i.labels[name]; ok {
		return value, true
	}
	for _, p := range i.parents {
		if value, ok := p.labels[name]; ok {
			return value, true
		}
	}
	return "", false
}

// UpdateItem adds an item or replaces its labels and parents. Both are copied. The cost is one
// evaluation of each distinct selector, or nothing where neither changed.
func (x *Index[I, S]) UpdateItem(id I, labels map[string]string, parents []string) {
	it, ok := x.items[id]
	if !ok {
		it = &item[I, S]{id: id, matches: map[*query[I, S]]struct{}{}}
		x.items[id] = it
	} else if maps.Equal(it.labels, labels) && it.hasParents(parents) {
		return
	}
	it.labels = maps.Clone(labels)
	x.setParents(it, parents)
	x.evaluate(it)
	x.report()
}

// DeleteItem removes an item. The cost is in proportion to its matches.
func (x *Index[I, S]) DeleteItem(id I) {
	it, ok := x.items[id]
	if !ok {
		return
	}
	for q := range it.matches {
		x.unmatch(q, it)
	}
	x.setParents(it, nil)
	delete(x.items, id)
	x.report()
}

// UpdateParent adds a parent or replaces its labels, which are copied. Only items that
// name the parent are looked at, and none where the labels did not change.
func (x *Index[I, S]) UpdateParent(name string, labels map[string]string) {
	p := x.parent(name)
	p.exists = true
	x.setLabels(p, labels)
}

// DeleteParent removes a parent. Items that name it lose the labels they inherited from it and get them back when it returns.
func (x *Index[I, S]) DeleteParent(name string) {
	p, ok := x.parents[name]
	if !ok {
		return
	}
	p.exists = false
	x.setLabels(p, nil)
	x.release(p)
}

// UpdateSelector adds a selector or replaces it. Another id of the same selector makes it
// cheap; otherwise it is evaluated on every item. A nil or invalid selector matches nothing.
func (x *Index[I, S]) UpdateSelector(id S, sel *selector.Selector) {
	before := x.selectors[id]
	after := x.query(sel)
	if before == after {
		return
	}
	after.ids[id] = struct{}{}
	x.selectors[id] = after
	for it := range after.matches {
		if before == nil || !has(before.matches, it) {
			x.note(id, it, true)
		}
	}
	if before != nil {
		for it := range before.matches {
			if !has(after.matches, it) {
				x.note(id, it, false)
			}
		}
		x.drop(before, id)
	}
	x.report()
}

// DeleteSelector removes a selector. The cost is in proportion to its matches.
func (x *Index[I, S]) DeleteSelector(id S) {
	q, ok := x.selectors[id]
	if !ok {
		return
	}
	for it := range q.matches {
		x.note(id, it, false)
	}
	x.drop(q, id)
	delete(x.selectors, id)
	x.report()
}

// Items returns the items that the selector matches, sorted, as they are when it is called.
func (x *Index[I, S]) Items(sel S) iter.Seq[I] {
	q, ok := x.selectors[sel]
	if !ok {
		return slices.Values[[]I](nil)
	}
	ids := make([]I, 0, len(q.matches))
	for it := range q.matches {
		ids = append(ids, it.id)
	}
	slices.SortFunc(ids, x.config.CompareItems)
	return slices.Values(ids)
}

// Selectors returns the selectors that match the item, sorted, as they are when it is called.
func (x *Index[I, S]) Selectors(item I) iter.Seq[S] {
	it, ok := x.items[item]
	if !ok {
		return slices.Values[[]S](nil)
	}
	var ids []S
	for q := range it.matches {
		ids = slices.AppendSeq(ids, maps.Keys(q.ids))
	}
	slices.SortFunc(ids, x.config.CompareSelectors)
	return slices.Values(ids)
}

// note remembers one change of the call in progress.
func (x *Index[I, S]) note(id S, it *item[I, S], started bool) {
	x.changes = append(x.changes, change[I, S]{selector: id, item: it.id, started: started})
}

// report tells the callbacks what the call changed. By now the index is in its new
// state, and no pair is in the list twice.
func (x *Index[I, S]) report() {
	changes := x.changes
	x.changes = nil
	slices.SortFunc(changes, func(a, b change[I, S]) int {
		return cmp.Or(x.config.CompareSelectors(a.selector, b.selector), x.config.CompareItems(a.item, b.item))
	})
	for _, c := range changes {
		tell := x.config.Stopped
		if c.started {
			tell = x.config.Started
		}
		if tell != nil {
			tell(c.selector, c.item)
		}
	}
}
