// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"maps"
	"slices"
)

// holders says which objects contribute a prefix. Nearly every prefix has one holder, and then
// there is just its number:
//
//	10.0.0.1     ──▶ 17
//	10.0.0.2     ──▶ group 3 ──▶ 4, 18
//	10.1.0.0/16  ──▶ 5
type holders struct {
	hosts  shrinkingMap[uint32, uint32] // of full-length IPv4 addresses: an object, or a group with groupBit
	nets   shrinkingMap[netKey, uint32] // of all else
	groups [][]uint32                   // objects, sorted
	free   []uint32                     // groups without objects
}

// groupBit tells groups from objects.
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
	members := []uint32{min(a, b), max(a, b)}
	if n := len(h.free) - 1; n >= 0 {
		group := h.free[n]
		h.free = h.free[:n]
		h.groups[group] = members
		return group
	}
	h.groups = append(h.groups, members)
	return uint32(len(h.groups) - 1)
}

// join adds an object to a group. It reports whether it is new there.
func (h *holders) join(group, object uint32) bool {
	at, found := slices.BinarySearch(h.groups[group], object)
	if found {
		return false
	}
	h.groups[group] = slices.Insert(h.groups[group], at, object)
	return true
}

// quit takes an object out of a group. It returns how many are left and the first of them.
func (h *holders) quit(group, object uint32) (left int, first uint32) {
	at, found := slices.BinarySearch(h.groups[group], object)
	if found {
		h.groups[group] = slices.Delete(h.groups[group], at, at+1)
	}
	return len(h.groups[group]), h.groups[group][0]
}

// end forgets a group.
func (h *holders) end(group uint32) {
	h.groups[group] = nil
	h.free = append(h.free, group)
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
