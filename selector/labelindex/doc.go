// SPDX-License-Identifier: Apache-2.0

// Package labelindex keeps track of which selectors match which labelled items while
// both change, and reports each match that starts or stops.
//
// Items have labels of their own and inherit others from named parents:
//
//	parent "ns-prod" {env: prod} ──┐
//	parent "sa-web"  {team: x}   ──┤ inherited, first in the item's list wins
//	                               ▼
//	               item "pod-1" {app: web}  ◀── match ──▶  selector app == "web" && env == "prod"
//
// An item's own label wins over an inherited one; of several parents, the first in the
// item's list that has the label. A parent may be named before it exists, and may vanish
// while it is named: then it has no labels.
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
// Then call the Update and Delete methods in any order. Every match is reported as
// started once and as stopped once, under the same ids. What one call changes is
// reported before it returns, sorted by selector and then by item. A call that
// changes nothing reports nothing.
//
// Items and Selectors query the current matches both ways; Stats returns the counts.
// What is handed in is copied, equal strings once.
//
// # What it costs
//
// Selectors that print the same canonical form are one query, under however many ids they are held.
// A query is filed under one term that each of its matches must show, a label name or a name with
// its value; or, for `k in {"v", "w"}`, under each value. Everything has a small number, and a term
// has the numbers of those who have to do with it:
//
//	          ┌── items    {3, 4, 9, ...}   with a label of their own
//	app=web ──┼── parents  {1}  ──▶ items {2, 7}   which inherit it
//	          └── queries  {5}  ──▶ the selector, the items it matches, its ids
//
//	item 3 ──▶ its pairs [app=web, tier=fe], its parents [1, 6]
//
// So a new selector is compared with the items of its term alone, and an item with the queries of
// the terms that it shows or inherits. Of the terms that a selector needs, the one with the fewest
// items is taken when it comes. If it comes before its items, the one with the fewest other
// selectors is. Terms become common with time: a query that is compared in vain again and again
// moves to a term that is less than half as common, if it has one. It looks for one after 16 vain
// comparisons, or four for each label and value that it needs if those are more, and after twice as
// many each time that it finds none, up to eight times as many.
//
// Selectors that need no label, as `!has(x)`, `a != "b"` or `all()`, and those that need one label
// or another, as `has(x) || has(y)`, are kept apart. Each new item is compared with all of them,
// and one that goes is looked for in the matches of each. A change of labels concerns those
// selectors alone that mention a name that changes, however many others match the item: if more
// than a few do, those of them that the item can match, or could, by the terms that they are filed
// under.
//
// An item's labels are searched one after the other, so one with thousands of labels, or a parent
// with as many, is slow to compare; so is a list of very many parents to replace.
//
// A change of labels that no selector mentions is stored and goes no further: a parent's items are
// not even looked at.
//
// Sets of numbers are one word, a short sorted list or a bitmap, by their size.
// Lists lie in blocks without pointers. What is no longer used is given back, not kept for later, a
// block of 128 numbers at a time: a few items left of very many keep more than their share. Only
// one thing is kept between calls: once a report covers half of all items, their order, at four
// bytes an item, until one in eight has come or gone.
//
// # Concurrency
//
// An Index belongs to one goroutine. The callbacks run on it, inside the call that
// caused them, and must not call the index themselves.
//
// # Errors
//
// Only New fails, on an incomplete Config. Deleting what is not there does nothing. A nil or
// invalid selector matches nothing.
package labelindex
