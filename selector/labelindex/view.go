// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"iter"

	"github.com/wayleave/wayleave/selector"
)

// view shows an item's effective labels to a selector.
type view struct {
	store   *store
	own     []uint32
	parents []uint32
	memo    [4]memo // of the names last looked up
	turn    uint8
}

type memo struct {
	text string
	id   uint32
	ok   bool
}

var _ selector.Labels = (*view)(nil)

// look turns the view to an item.
func (v *view) look(s *store, itemID uint32) {
	it := s.item.At(itemID)
	v.store, v.own, v.parents = s, s.sets.get(it.labels), s.sets.get(it.parents)
}

// pairs yields the item's own pairs, then those of each parent.
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

// Get returns the value of a label: the item's own, else that of the first parent that has it.
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

// lookup returns the id of a name. One selector on many items looks up the same names again and
// again, and comparing a string with itself takes no time.
func (v *view) lookup(text string) (uint32, bool) {
	for i := range v.memo {
		if m := &v.memo[i]; m.text == text {
			return m.id, m.ok
		}
	}
	id, _, ok := v.store.names.Find(text)
	v.memo[v.turn%4] = memo{text, id, ok}
	v.turn++
	return id, ok
}

// forget drops the memo: names may have come and gone.
func (v *view) forget() {
	v.memo = [4]memo{}
	v.own, v.parents = nil, nil
}
