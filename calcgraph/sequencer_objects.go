// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
)

// objects has the emitted and the pending state of one kind of object.
type objects[K comparable, V any] struct {
	compare func(a, b K) int
	equal   func(a, b *V) bool
	update  func(K, *V) dataplane.Event
	remove  func(K) dataplane.Event
	sent    shrinkingMap[K, *V]
	// pending has the updates since the last flush; nil means removed.
	pending map[K]*V
	removed []K // in the current flush
}

func newObjects[K comparable, V any](
	compare func(a, b K) int, equal func(a, b *V) bool,
	update func(K, *V) dataplane.Event, remove func(K) dataplane.Event,
) objects[K, V] {
	return objects[K, V]{
		compare: compare, equal: equal, update: update, remove: remove, pending: map[K]*V{},
	}
}

func (o *objects[K, V]) set(k K, v *V) { o.pending[k] = v }

// appendUpdates appends the events of new or changed objects. It collects removed objects for
// appendRemoves, and clears pending.
func (o *objects[K, V]) appendUpdates(events []dataplane.Event) []dataplane.Event {
	o.removed = o.removed[:0]
	if len(o.pending) == 0 {
		return events
	}
	for _, k := range o.sorted(o.pending) {
		v, old := o.pending[k], o.sent.m[k]
		switch {
		case v == nil && old != nil:
			o.sent.drop(k)
			o.removed = append(o.removed, k)
		case v != nil && (old == nil || !o.equal(v, old)):
			o.sent.set(k, v)
			events = append(events, o.update(k, v))
		}
	}
	if len(o.pending) > maxDirty {
		o.pending = map[K]*V{} // Go maps do not shrink
	}
	clear(o.pending)
	return events
}

// appendRemoves appends the events of removed objects.
func (o *objects[K, V]) appendRemoves(events []dataplane.Event) []dataplane.Event {
	for _, k := range o.removed {
		events = append(events, o.remove(k))
	}
	o.removed = nil
	return events
}

// appendAll appends the events that create the emitted objects.
func (o *objects[K, V]) appendAll(events []dataplane.Event) []dataplane.Event {
	for _, k := range o.sorted(o.sent.m) {
		events = append(events, o.update(k, o.sent.m[k]))
	}
	return events
}

func (o *objects[K, V]) sorted(m map[K]*V) []K {
	return slices.SortedFunc(maps.Keys(m), o.compare)
}
