// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"slices"

	"github.com/wayleave/wayleave/internal/idtable"
)

// order caches the order of all items. The order is computed when a report has very many items,
// because sorting these would take a good part of the time to sort all. Later large reports are
// then sorted in linear time, without comparisons.
type order[I comparable] struct {
	sorted []uint32 // item ids in order at the last use; nil if unknown
	dirty  []uint32 // ids added or removed since then, possibly several times
}

const (
	minOrdered = 1024 // smaller reports are sorted by comparison
	// The order is computed for a report of at least 1 in orderWorth items. It is used for reports
	// of at least 1 in orderUse items. It is dropped when 1 in orderDirty items was added or
	// removed.
	orderWorth = 2
	orderUse   = 32
	orderDirty = 8
)

// markDirty records that an item is added or removed.
func (o *order[I]) markDirty(id uint32) {
	if o.sorted == nil {
		return
	}
	if o.dirty = append(o.dirty, id); len(o.dirty)*orderDirty > len(o.sorted) {
		*o = order[I]{}
	}
}

// sort sorts changes, which have distinct items, by the keys of the items.
func (o *order[I]) sort(changes []change, items *idtable.Keys[I], compare func(a, b I) int) {
	n := len(changes)
	share := orderWorth
	if o.sorted != nil {
		share = orderUse
	}
	if n < minOrdered || n*share < items.Len() {
		if n > 1 {
			slices.SortFunc(changes, func(a, b change) int {
				return compare(*items.Key(a.item()), *items.Key(b.item()))
			})
		}
		return
	}
	o.refresh(items, compare)
	size := items.Bound()
	where := make([]change, size) // for each item its change plus one, or zero
	for _, c := range changes {
		where[c.item()] = c + 1
	}
	changes = changes[:0]
	for _, id := range o.sorted {
		if c := where[id]; c != 0 {
			changes = append(changes, c-1)
		}
	}
}

// refresh updates the order.
func (o *order[I]) refresh(items *idtable.Keys[I], compare func(a, b I) int) {
	byKey := func(a, b uint32) int { return compare(*items.Key(a), *items.Key(b)) }
	if o.sorted == nil {
		o.sorted = items.AppendTo(make([]uint32, 0, items.Len()))
		slices.SortFunc(o.sorted, byKey)
		return
	}
	if len(o.dirty) == 0 {
		return
	}
	slices.Sort(o.dirty)
	dirty := slices.Compact(o.dirty)
	kept := slices.DeleteFunc(o.sorted, func(id uint32) bool {
		_, found := slices.BinarySearch(dirty, id)
		return found
	})
	fresh := slices.DeleteFunc(dirty, func(id uint32) bool { return !items.Has(id) })
	slices.SortFunc(fresh, byKey)
	merged := make([]uint32, 0, len(kept)+len(fresh))
	for _, id := range fresh {
		for len(kept) > 0 && byKey(kept[0], id) < 0 {
			merged, kept = append(merged, kept[0]), kept[1:]
		}
		merged = append(merged, id)
	}
	o.sorted, o.dirty = append(merged, kept...), nil
}
