// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/selector"
)

// evaluate brings the item's matches up to date with its labels.
func (x *Index[I, S]) evaluate(it *item[I, S]) {
	for _, q := range x.queries {
		matched, matches := has(it.matches, q), q.selector.Match(it)
		switch {
		case matches && !matched:
			x.match(q, it)
		case matched && !matches:
			x.unmatch(q, it)
		}
	}
}

func (x *Index[I, S]) match(q *query[I, S], it *item[I, S]) {
	q.matches[it] = struct{}{}
	it.matches[q] = struct{}{}
	for id := range q.ids {
		x.note(id, it, true)
	}
}

func (x *Index[I, S]) unmatch(q *query[I, S], it *item[I, S]) {
	delete(q.matches, it)
	delete(it.matches, q)
	for id := range q.ids {
		x.note(id, it, false)
	}
}

// query returns the shared query of a selector, evaluated, made on first use.
func (x *Index[I, S]) query(sel *selector.Selector) *query[I, S] {
	text := sel.String()
	q, ok := x.queries[text]
	if ok {
		return q
	}
	q = &query[I, S]{selector: sel, ids: map[S]struct{}{}, matches: map[*item[I, S]]struct{}{}}
	x.queries[text] = q
	for _, it := range x.items {
		if sel.Match(it) {
			x.match(q, it) // notes nothing: the query has no id yet
		}
	}
	return q
}

// drop takes an id from a query, and the query away after the last one.
func (x *Index[I, S]) drop(q *query[I, S], id S) {
	delete(q.ids, id)
	if len(q.ids) > 0 {
		return
	}
	delete(x.queries, q.selector.String())
	for it := range q.matches {
		delete(it.matches, q)
	}
}

// parent returns the parent of that name, made on first use.
func (x *Index[I, S]) parent(name string) *parent[I, S] {
	p, ok := x.parents[name]
	if !ok {
		p = &parent[I, S]{name: name, items: map[*item[I, S]]struct{}{}}
		x.parents[name] = p
	}
	return p
}

// release forgets a parent that neither exists nor is named by an item.
func (x *Index[I, S]) release(p *parent[I, S]) {
	if !p.exists && len(p.items) == 0 {
		delete(x.parents, p.name)
	}
}

// setLabels changes a parent's labels and the matches of its items.
func (x *Index[I, S]) setLabels(p *parent[I, S], labels map[string]string) {
	if maps.Equal(p.labels, labels) {
		return
	}
	p.labels = maps.Clone(labels)
	for it := range p.items {
		x.evaluate(it)
	}
	x.report()
}

// setParents changes the parents of an item, without looking at its matches.
func (x *Index[I, S]) setParents(it *item[I, S], names []string) {
	before := it.parents
	it.parents = make([]*parent[I, S], len(names))
	for i, name := range names {
		it.parents[i] = x.parent(name)
		it.parents[i].items[it] = struct{}{}
	}
	for _, p := range before {
		if !slices.Contains(it.parents, p) {
			delete(p.items, it)
			x.release(p)
		}
	}
}

func (i *item[I, S]) hasParents(names []string) bool {
	return slices.EqualFunc(i.parents, names, func(p *parent[I, S], name string) bool { return p.name == name })
}

func has[K comparable](set map[K]struct{}, key K) bool {
	_, ok := set[key]
	return ok
}
