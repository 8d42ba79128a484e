// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"iter"

	"github.com/wayleave/wayleave/selector"
)

// view is the effective labels of an item, as selector.Labels.
type view struct {
	store   *store
	own     []uint32
	parents []uint32
	memo    [4]memo // the last lookups of names
	next    uint8
}

type memo struct {
	text string
	id   uint32
	ok   bool
}

var _ selector.Labels = (*view)(nil)

// load sets the item of the view.
func (v *view) load(s *store, itemID uint32) {
	it := s.item.At(itemID)
	v.store, v.own, v.parents = s, s.sets.get(it.labels), s.sets.get(it.parents)
}

// pairs iterates over the item's own pairs, then over those of each parent.
func (v *view) pairs() iter.Seq[[]uint32] {
	return func(yield func([]uint32) bool) {
		if !yield(v.own) {
			return
		}
		for _, p := range v.parents {
			if !yield(v.store.sets.get(v.store.parents.At(p).labels)) {
				return
			}
		}
	}
}

// Get returns the value of a label: the item's own, or that of the first parent that has it.
func (v *view) Get(text string) (string, bool) {
	nameID, ok := v.lookup(text)
	if !ok {
		return "", false
	}
	s := v.store
	for _, id := range v.own {
		if key := s.pairs.Key(id); key.name == nameID {
			return key.value, true
		}
	}
	for _, p := range v.parents {
		for _, id := range s.sets.get(s.parents.At(p).labels) {
			if key := s.pairs.Key(id); key.name == nameID {
				return key.value, true
			}
		}
	}
	return "", false
}

// lookup returns the id of a name. It caches the last names: a selector that is evaluated for many
// items looks up the same names each time.
func (v *view) lookup(text string) (uint32, bool) {
	for i := range v.memo {
		if m := &v.memo[i]; m.text == text {
			return m.id, m.ok
		}
	}
	id, _, ok := v.store.names.Find(text)
	v.memo[v.next%4] = memo{text, id, ok}
	v.next++
	return id, ok
}

// reset clears the view and its cache. It must be called when names are added or removed.
func (v *view) reset() {
	v.memo = [4]memo{}
	v.own, v.parents = nil, nil
}
