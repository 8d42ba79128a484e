// SPDX-License-Identifier: Apache-2.0

// Package labelindex matches many selectors with many labelled items, incrementally: it reports each match that starts
// or stops as items and selectors change.
//
// Items have labels of their own and inherit labels from named parents:
//
//	parent "ns-prod" {env: prod} ──┐
//	parent "sa-web"  {team: x}   ──┤ inherited, first in the item's list wins
//	                               ▼
//	               item "pod-1" {app: web}  ◀── match ──▶  selector app == "web" && env == "prod"
//
// An item's own label takes precedence over an inherited label of the same name. If several parents have the label,
// the first of them in the item's list takes precedence. An item can name a parent that does not exist: this parent
// then has no labels.
//
// # Usage
//
//	index, err := labelindex.New(labelindex.Config[string, string]{
//		CompareItems:     strings.Compare,
//		CompareSelectors: strings.Compare,
//		Started:          func(sel, item string) { members.Add(sel, item) },
//		Stopped:          func(sel, item string) { members.Remove(sel, item) },
//	})
//
// The Update and Delete methods can be called in any order. Before such a method returns, it calls Started and Stopped
// for the matches that it changes, sorted by selector and then by item. When a match ends, Stopped is called exactly
// once, with the ids that Started was called with.
//
// Items returns the items that a selector matches. Selectors returns the selectors that match an item. Stats returns
// counts. The index copies its input. It stores equal strings once.
//
// # Cost
//
// Selectors with the same canonical form share one query, which is evaluated once for all of them. The index files
// each query under a term: a label name, or a pair of name and value. An item without this term cannot match the
// query. A query such as `k in {"v", "w"}` is filed under two terms, k=v and k=w: an item with neither of them cannot
// match it. The index numbers all items, parents, queries and terms. For each term, it has these sets of numbers:
//
//	          ┌── items    {3, 4, 9, ...}   with the label as their own
//	app=web ──┼── parents  {1}  ──▶ items {2, 7}   which inherit the label
//	          └── queries  {5}  ──▶ the selector, its ids, the items that it matches
//
//	item 3 ──▶ its pairs [app=web, tier=fe], its parents [1, 6]
//
// So the index evaluates a new selector only for the items that have its term. For a new item, it evaluates only the
// queries that are filed under a term of the item, which the item has itself or inherits. A query such as
// `app == "web" && env == "prod"` requires two terms. The index files it under only one of them: the term with the
// fewest items. If both have equally many items, for example none, it chooses the term with the fewest queries.
//
// A term can become common later. Therefore the index counts the evaluations of a query that gave no match. When the
// count reaches the limit of the query, the index looks for another term that has less than half as many items, and
// files the query under it. If there is no such term, the limit doubles.
//
// The first limit of a query is 4 × (L + V), but at least 16. L is the number of labels that an item must have to match
// the query. V is the number of values that the query allows for these labels. The limit never exceeds 8 times the
// first limit.
//
// Some queries need no particular label, such as `!has(x)`, `a != "b"`, `all()` or `has(x) || has(y)`. These queries
// are called loose. They are in a list of their own, and have no term. Adding or removing an item takes time linear
// in the number of loose queries.
//
// When labels of an item change, the index evaluates only queries that mention a changed name. If there are more than
// 16 such queries, the index evaluates only some of them: the loose ones, and those that are filed under a term that
// the item had before the change or has afterwards. If labels of a parent change, but no query mentions their names,
// the index does not visit the items of the parent.
//
// To look up a label of an item takes time linear in the number of its labels. So the evaluation is slow for an item
// with thousands of labels or thousands of parents, and for the items of a parent with thousands of labels.
//
// A set of numbers is stored as a single word, a short sorted list or a bitmap, depending on its size. Lists are in
// blocks of memory without pointers. The index allocates memory for up to 128 items or lists at once, and frees this
// memory when none of these is left. So after most of very many items have been removed, the index may take more memory
// than a new index with the remaining items.
//
// If a call reports matches of at least half of all items, the index sorts all items. It keeps this order, at 4 bytes
// an item, until one item in eight has been added or removed. It keeps no other large buffers between calls.
//
// # Concurrency
//
// Only one goroutine at a time may use an Index. The index calls Started and Stopped in the goroutine of the caller.
// These functions must not call the index.
//
// # Errors
//
// Only New returns an error, for an incomplete Config. The deletion of an id that does not exist has no effect. A nil
// or invalid selector matches nothing.
package labelindex
