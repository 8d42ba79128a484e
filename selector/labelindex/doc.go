// SPDX-License-Identifier: Apache-2.0

// Package labelindex matches many selectors with many labelled items, incrementally: it reports
// each match that starts or stops as items and selectors change.
//
// Items have labels of their own and inherit labels from named parents:
//
//	parent "ns-prod" {env: prod} ──┐
//	parent "sa-web"  {team: x}   ──┤ inherited, first in the item's list wins
//	                               ▼
//	               item "pod-1" {app: web}  ◀── match ──▶  selector app == "web" && env == "prod"
//
// An item's own label takes precedence over an inherited label of the same name. If several parents
// have the label, the first of them in the item's list takes precedence. An item can name a parent
// that does not exist: this parent then has no labels.
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
// The Update and Delete methods can be called in any order. Before such a method returns, it calls
// Started and Stopped for the matches that it changes, sorted by selector and then by item. When a
// match ends, Stopped is called exactly once, with the ids that Started was called with.
//
// Items returns the items that a selector matches. Selectors returns the selectors that match an
// item. Stats returns counts. The index copies its input. It stores equal strings once.
//
// # Cost
//
// The index evaluates a selector only for items that it may match. For this, it files each selector
// under a label that the selector requires:
//
//	selector app == "web" && env == "prod"   filed under app=web or env=prod
//	selector has(app)                        filed under the name app
//	selector k in {"v", "w"}                 filed under both k=v and k=w
//	selector !has(x), has(x) || has(y)       loose: requires no particular label
//
// If a selector requires several labels, the index files it under the label with the fewest items.
// If this label becomes common, the index files the selector under another one. Each kind of change
// leads to these evaluations:
//
//   - New selector: it is evaluated for all items that have its label, as their own or inherited. A
//     loose selector is evaluated for all items. A selector with the same canonical form as another
//     one is not evaluated again.
//   - New item: the selectors that are filed under its labels are evaluated, and all loose
//     selectors. So the time to add an item is linear in the number of loose selectors. The same
//     holds for the time to remove an item.
//   - Changed labels of an item: only selectors that mention a changed name are evaluated.
//   - Changed labels of a parent: the same, for each item that names the parent.
//
// To look up a label of an item takes time linear in the number of its labels. So the evaluation is
// slow for an item with thousands of labels or parents, and for the items of a parent with
// thousands of labels.
//
// The index allocates memory in chunks, each for up to 128 items or internal lists. It frees a
// chunk when nothing in the chunk is used any more. So after most items of a large index have been
// removed, the index may take more memory than a new index with the remaining items.
//
// # Concurrency
//
// Only one goroutine at a time may use an Index. The index calls Started and Stopped in the
// goroutine of the caller. These functions must not call the index.
//
// # Errors
//
// Only New returns an error, for an incomplete Config. The deletion of an id that does not exist
// has no effect. A nil or invalid selector matches nothing.
package labelindex
