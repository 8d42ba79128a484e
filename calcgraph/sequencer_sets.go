// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"cmp"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
)

// setStream orders the changes of IP sets. Between two flushes it only records added and removed
// members; at the flush, opposite changes cancel out.
type setStream struct {
	sets  map[dataplane.IPSetID]*setState
	dirty []*setState
	last  *setState // whose member changed last: often the same again
}

// setState is kept while the set exists for the nodes or for the receiver of the batches.
type setState struct {
	id            dataplane.IPSetID
	typ           dataplane.IPSetType
	exists, known bool
	dirty         bool
	// added and removed are the changes since the last flush, in no order. A member is in them by
	// turns.
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
	s.touch(set)
}

func (s *setStream) end(id dataplane.IPSetID) {
	if set := s.sets[id]; set != nil {
		set.exists = false
		s.touch(set)
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
	s.touch(set)
	if present {
		set.added = append(grown(set.added), m)
	} else {
		set.removed = append(grown(set.removed), m)
	}
}

// grown returns a list with room for one more. It doubles: a new set may have very many members,
// and append alone would copy them more often.
func grown(list []dataplane.Member) []dataplane.Member {
	if len(list) == cap(list) {
		return slices.Grow(list, max(1, len(list)))
	}
	return list
}

func (s *setStream) touch(set *setState) {
	if !set.dirty {
		set.dirty = true
		s.dirty = append(s.dirty, set)
	}
}

// flush returns the events of the dirty sets, by the three steps that concern sets.
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

// snapshot returns the events that make the sets as they were emitted: their members as they are
// now, less what has changed since.
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

// maxDirty is how many entries of room to work in stay between flushes.
const maxDirty = 1024

// cancel sorts the changes of a set and drops members that came and went, or went and came.
func (set *setState) cancel() {
	set.added, set.removed = difference(set.added, set.removed)
}

// difference sorts the two lists and takes out of both what is in both, as often as it is.
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

// clipped returns the list without much room at its end: a receiver may keep it. An empty one is
// nil.
func clipped(list []dataplane.Member) []dataplane.Member {
	if len(list) == 0 {
		return nil
	}
	if cap(list) > len(list)+len(list)/8 {
		return slices.Clone(list)
	}
	return list
}
