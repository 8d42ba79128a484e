// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"cmp"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
)

// setStream orders the changes of IP sets. Between flushes, it only records added and removed
// members. A flush cancels opposite changes.
type setStream struct {
	sets  map[dataplane.IPSetID]*setState
	dirty []*setState
	last  *setState // set of the last changed member, which is often the same
}

// setState is the state of a set that exists in the nodes or was emitted.
type setState struct {
	id            dataplane.IPSetID
	typ           dataplane.IPSetType
	exists, known bool
	dirty         bool
	// added and removed are the changes since the last flush, unsorted. A member can be in both
	// several times, alternately.
	added, removed []dataplane.Member
}

func newSetStream() setStream {
	return setStream{sets: map[dataplane.IPSetID]*setState{}}
}

func (s *setStream) start(id dataplane.IPSetID, typ dataplane.IPSetType) {
	set := s.sets[id]
	if set == nil {
		set = &setState{id: id}
		s.sets[id] = set
	}
	set.typ, set.exists = typ, true
	s.markDirty(set)
}

func (s *setStream) end(id dataplane.IPSetID) {
	if set := s.sets[id]; set != nil {
		set.exists = false
		s.markDirty(set)
	}
}

func (s *setStream) change(id dataplane.IPSetID, m dataplane.Member, present bool) {
	set := s.last
	if set == nil || set.id != id {
		if set = s.sets[id]; set == nil {
			return
		}
		s.last = set
	}
	s.markDirty(set)
	if present {
		set.added = append(grown(set.added), m)
	} else {
		set.removed = append(grown(set.removed), m)
	}
}

// grown returns a list with room for one more member. It doubles the capacity, because a new set
// may have many members, and append would copy them more often.
func grown(list []dataplane.Member) []dataplane.Member {
	if len(list) == cap(list) {
		return slices.Grow(list, max(1, len(list)))
	}
	return list
}

func (s *setStream) markDirty(set *setState) {
	if !set.dirty {
		set.dirty = true
		s.dirty = append(s.dirty, set)
	}
}

// flush returns the events of the dirty sets, for each of the three steps of a batch with sets.
func (s *setStream) flush() (updates, deltas, removes []dataplane.Event) {
	if len(s.dirty) == 0 {
		return nil, nil, nil
	}
	slices.SortFunc(s.dirty, func(a, b *setState) int { return cmp.Compare(a.id, b.id) })
	for _, set := range s.dirty {
		set.cancel()
		switch {
		case set.exists && !set.known:
			updates = append(updates, &dataplane.IPSetUpdate{ID: set.id, Type: set.typ, Members: set.added})
		case set.exists && len(set.added)+len(set.removed) > 0:
			deltas = append(deltas, &dataplane.IPSetDelta{ID: set.id, Added: set.added, Removed: set.removed})
		case !set.exists && set.known:
			removes = append(removes, &dataplane.IPSetRemove{ID: set.id})
		}
		set.known, set.dirty, set.added, set.removed = set.exists, false, nil, nil
		if !set.exists {
			delete(s.sets, set.id)
			s.last = nil
		}
	}
	if cap(s.dirty) > maxDirty {
		s.dirty = nil
	}
	clear(s.dirty)
	s.dirty = s.dirty[:0]
	return updates, deltas, removes
}

// snapshot returns the events that create the emitted sets: the present members without the changes
// since the last flush.
func (s *setStream) snapshot(members func(id dataplane.IPSetID) []dataplane.Member) []dataplane.Event {
	var events []dataplane.Event
	for _, id := range slices.Sorted(maps.Keys(s.sets)) {
		set := s.sets[id]
		if !set.known {
			continue
		}
		list := members(id)
		if set.dirty {
			set.cancel()
			list, _ = difference(append(list, set.removed...), slices.Clone(set.added))
		}
		events = append(events, &dataplane.IPSetUpdate{ID: id, Type: set.typ, Members: list})
	}
	return events
}

// maxDirty is the number of entries of the list that is kept between flushes.
const maxDirty = 1024

// cancel sorts the changes of a set and removes members without a net change.
func (set *setState) cancel() {
	set.added, set.removed = difference(set.added, set.removed)
}

// difference sorts both lists and removes common members from both, each as often as both have it.
func difference(a, b []dataplane.Member) (onlyA, onlyB []dataplane.Member) {
	sortMembers(a)
	if len(b) == 0 {
		return clipped(a), nil
	}
	sortMembers(b)
	i, j := 0, 0
	onlyA, onlyB = a[:0], b[:0]
	for i < len(a) && j < len(b) {
		switch c := a[i].Compare(b[j]); {
		case c < 0:
			onlyA = append(onlyA, a[i])
			i++
		case c > 0:
			onlyB = append(onlyB, b[j])
			j++
		default:
			i++
			j++
		}
	}
	onlyA, onlyB = append(onlyA, a[i:]...), append(onlyB, b[j:]...)
	return clipped(onlyA), clipped(onlyB)
}

func sortMembers(list []dataplane.Member) {
	slices.SortFunc(list, dataplane.Member.Compare)
}

// clipped returns the list without unused capacity, because a receiver may keep it. It returns nil
// for an empty list.
func clipped(list []dataplane.Member) []dataplane.Member {
	if len(list) == 0 {
		return nil
	}
	if cap(list) > len(list)+len(list)/8 {
		return slices.Clone(list)
	}
	return list
}
