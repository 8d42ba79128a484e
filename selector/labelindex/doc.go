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
// An item's own label takes precedence over inherited labels. Of several parents, the first one in the item's list that
// has the label takes precedence. An item can name a parent that does not exist: the parent then has no labels.
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
// Selectors with the same canonical form share one query, which is evaluated once for all of them. Each query is filed
// under a term: a label name, or a pair of name and value. Every item that the query matches must have this term. The
// exception is a query such as `k in {"v", "w"}`, which is filed under the pair of each value. Items, parents, queries
// and terms have numbers. A term has sets of these numbers:
//
//	          ┌── items    {3, 4, 9, ...}   with the label as their own
//	app=web ──┼── parents  {1}  ──▶ items {2, 7}   which inherit the label
//	          └── queries  {5}  ──▶ the selector, its ids, the items that it matches
//
//	item 3 ──▶ its pairs [app=web, tier=fe], its parents [1, 6]
//
// So a new selector is evaluated only for the items of its term, and a new item only with the queries of its own and
// inherited terms. If a new query could be filed under several terms, the index chooses the term with the fewest items.
// If several terms have the fewest items (before the first item, all terms have none), the index chooses among them the
// term with the fewest queries.
//
// A term can become common later. Therefore the index counts the evaluations of a query that gave no match. When the
// count reaches the limit of the query, the index looks for another term that has less than half as many items, and
// files the query under it. If there is no such term, the limit doubles. The first limit of a query is 4 evaluations
// for each label and value that the query needs, but at least 16. The highest limit is 8 times the first.
//
// Queries that need no single label, such as `!has(x)`, `a != "b"`, `all()` or `has(x) || has(y)`, are called loose and
// have a list of their own. Adding or removing an item takes time linear in the number of loose queries.
//
// When labels of an item change, only the queries that mention a changed name are evaluated. If there are more than 16
// such queries, the index skips those whose term the item has neither before nor after the change. When labels of a
// parent change and no query mentions their names, the index does not visit the items of the parent.
//
// Lookup of a label in an item is linear in the number of labels. An item or a parent with thousands of labels is slow
// to evaluate, and so is a list of thousands of parents.
//
// A set of numbers is stored as a single word, a short sorted list or a bitmap, depending on its size. Lists are in
// blocks of memory without pointers. Unused memory is freed in blocks of 128 numbers. So when most of very many items
// have been removed, the other items may take more memory than in a new index.
//
// If a call reports matches of at least half of all items, the index sorts all items. It keeps this order, at 4 bytes
// an item, until one item in eight has been added or removed. It keeps no other large buffers between calls.
//
// # Concurrency
//
// An Index is for one goroutine at a time. It calls the callbacks in the goroutine of the caller. They must not call
// the index.
//
// # Errors
//
// Only New returns an error, for an incomplete Config. To delete an id that does not exist has no effect. A nil or
// invalid selector matches nothing.
package labelindex
