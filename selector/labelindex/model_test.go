// SPDX-License-Identifier: Apache-2.0

package labelindex_test

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/selector"
)

// event is one call of a callback.
type event struct {
	sel, item int
	started   bool
}

// model is a simple index for comparison. After each change, it evaluates all matches that the
// change can affect, and returns the expected events. Items and selectors are small numbers.
type model struct {
	items     []*modelItem // nil if there is no such item
	parents   map[string]labels
	selectors []*selector.Selector // nil if there is none, or if it matches nothing
	exists    []bool               // whether there is such a selector
	matches   [][]bool             // by selector, then by item
	count     int
}

type modelItem struct {
	labels    labels
	parents   []string
	effective selector.Map
}

func newModel(items, selectors int) *model {
	m := &model{
		items: make([]*modelItem, items), parents: map[string]labels{},
		selectors: make([]*selector.Selector, selectors), exists: make([]bool, selectors),
		matches: make([][]bool, selectors),
	}
	for i := range m.matches {
		m.matches[i] = make([]bool, items)
	}
	return m
}

// resolve computes an item's labels: later parents first, own labels last.
func (m *model) resolve(it *modelItem) {
	it.effective = selector.Map{}
	for _, name := range slices.Backward(it.parents) {
		maps.Copy(it.effective, m.parents[name])
	}
	maps.Copy(it.effective, it.labels)
}

// compare updates one match and appends the expected event, if any.
func (m *model) compare(events []event, sel, item int) []event {
	it := m.items[item]
	matches := it != nil && m.exists[sel] && m.selectors[sel].Match(it.effective)
	if matches == m.matches[sel][item] {
		return events
	}
	m.matches[sel][item] = matches
	if matches {
		m.count++
	} else {
		m.count--
	}
	return append(events, event{sel, item, matches})
}

// setItem adds or replaces an item. If it is nil, setItem removes the item.
func (m *model) setItem(id int, it *modelItem) []event {
	m.items[id] = it
	if it != nil {
		m.resolve(it)
	}
	var events []event
	for sel := range m.selectors {
		events = m.compare(events, sel, id)
	}
	return events
}

// setParent adds or replaces a parent. With nil labels, it removes it.
func (m *model) setParent(name string, l labels) []event {
	m.parents[name] = l
	var touched []int
	for id, it := range m.items {
		if it != nil && slices.Contains(it.parents, name) {
			m.resolve(it)
			touched = append(touched, id)
		}
	}
	var events []event
	for sel := range m.selectors {
		for _, id := range touched {
			events = m.compare(events, sel, id)
		}
	}
	return events
}

// setSelector adds, replaces or removes a selector.
func (m *model) setSelector(id int, sel *selector.Selector, exists bool) []event {
	m.selectors[id], m.exists[id] = sel, exists
	var events []event
	for item := range m.items {
		events = m.compare(events, id, item)
	}
	return events
}

func (m *model) itemsOf(sel int) []int {
	var ids []int
	for id, matches := range m.matches[sel] {
		if matches {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m *model) selectorsOf(item int) []int {
	var ids []int
	for sel := range m.matches {
		if m.matches[sel][item] {
			ids = append(ids, sel)
		}
	}
	return ids
}
