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
// Selectors that print the same canonical form are evaluated once, under however many ids they are held.
//
// # Concurrency
//
// An Index belongs to one goroutine. The callbacks run on it, inside the call that
// caused them, and must not call the index themselves.
//
// # Errors
//
// Only New fails, on an incomplete Config. Deleting what is not there does nothing.
package labelindex
