// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/internal/idtable"
)

// holders maps each prefix to the objects that contribute it. Nearly every prefix has one holder, for
// which it stores only the number:
//
//	10.0.0.1     ──▶ 17
//	10.0.0.2     ──▶ group 3 ──▶ 4, 18
//	10.1.0.0/16  ──▶ 5
type holders struct {
	hosts  shrinkingMap[uint32, uint32] // of full-length IPv4 addresses: an object, or a group with groupBit
	nets   shrinkingMap[netKey, uint32] // of all else
	ids    idtable.IDs                  // of groups
	groups idtable.Column[[]uint32]     // objects, sorted
}

// groupBit distinguishes groups from objects.
const groupBit = 1 << 31

// get returns the holder of a prefix, an object or a group with groupBit.
func (h *holders) get(k *netKey) (holder uint32, ok bool) {
	if addr, host := k.host(); host {
		holder, ok = h.hosts.m[addr]
	} else {
		holder, ok = h.nets.m[*k]
	}
	return holder, ok
}

// group returns the group that holds a prefix, if it is one.
func (h *holders) group(k *netKey) (uint32, bool) {
	holder, _ := h.get(k)
	return holder &^ groupBit, holder&groupBit != 0
}

func (h *holders) set(k *netKey, holder uint32) {
	if addr, host := k.host(); host {
		h.hosts.set(addr, holder)
	} else {
		h.nets.set(*k, holder)
	}
}

// drop forgets a prefix.
func (h *holders) drop(k *netKey) {
	if addr, host := k.host(); host {
		h.hosts.drop(addr)
	} else {
		h.nets.drop(*k)
	}
}

// newGroup makes a group of two objects.
func (h *holders) newGroup(a, b uint32) uint32 {
	group := h.ids.Alloc()
	h.groups.Grow(group)
	*h.groups.At(group) = []uint32{min(a, b), max(a, b)}
	return group
}

// join adds an object to a group. It reports whether it is new there.
func (h *holders) join(group, object uint32) bool {
	objects := h.groups.At(group)
	at, found := slices.BinarySearch(*objects, object)
	if found {
		return false
	}
	*objects = slices.Insert(*objects, at, object)
	return true
}

// quit takes an object out of a group. It returns how many are left and the first of them.
func (h *holders) quit(group, object uint32) (left int, first uint32) {
	objects := h.groups.At(group)
	if at, found := slices.BinarySearch(*objects, object); found {
		*objects = slices.Delete(*objects, at, at+1)
	}
	return len(*objects), (*objects)[0]
}

// end forgets a group.
func (h *holders) end(group uint32) {
	h.ids.Free(group)
	h.groups.Clear(group, &h.ids)
}

// shrinkingMap is a map that gives memory back as it empties, which maps by themselves do not. Its
// zero value is empty.
type shrinkingMap[K comparable, V any] struct {
	m    map[K]V
	peak int // most entries since it was made
}

func (s *shrinkingMap[K, V]) set(k K, v V) {
	if s.m == nil {
		s.m = map[K]V{}
	}
	s.m[k] = v
	s.peak = max(s.peak, len(s.m))
}

func (s *shrinkingMap[K, V]) drop(k K) {
	delete(s.m, k)
	if s.peak > 64 && len(s.m)*8 < s.peak {
		old := s.m
		s.m, s.peak = make(map[K]V, len(old)), len(old)
		maps.Copy(s.m, old)
	}
}
