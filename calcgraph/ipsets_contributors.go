// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/internal/idtable"
)

// contributors maps each prefix to the objects that have it. For most prefixes, this is one object,
// whose number is stored:
//
//	10.0.0.1     ──▶ 17
//	10.0.0.2     ──▶ group 3 ──▶ 4, 18
//	10.1.0.0/16  ──▶ 5
type contributors struct {
	hosts  shrinkingMap[uint32, uint32] // full-length IPv4 addresses: an object, or a group with groupBit
	nets   shrinkingMap[netKey, uint32] // all other prefixes
	ids    idtable.IDs                  // of groups
	groups idtable.Column[[]uint32]     // objects, sorted
}

// groupBit distinguishes groups from objects.
const groupBit = 1 << 31

// get returns the contributor of a prefix, an object or a group with groupBit.
func (c *contributors) get(k *netKey) (contributor uint32, ok bool) {
	if addr, host := k.host(); host {
		contributor, ok = c.hosts.m[addr]
	} else {
		contributor, ok = c.nets.m[*k]
	}
	return contributor, ok
}

// group returns the group of a prefix, if several objects have it.
func (c *contributors) group(k *netKey) (uint32, bool) {
	contributor, _ := c.get(k)
	return contributor &^ groupBit, contributor&groupBit != 0
}

func (c *contributors) set(k *netKey, contributor uint32) {
	if addr, host := k.host(); host {
		c.hosts.set(addr, contributor)
	} else {
		c.nets.set(*k, contributor)
	}
}

// drop removes a prefix.
func (c *contributors) drop(k *netKey) {
	if addr, host := k.host(); host {
		c.hosts.drop(addr)
	} else {
		c.nets.drop(*k)
	}
}

// newGroup returns a group of two objects.
func (c *contributors) newGroup(a, b uint32) uint32 {
	group := c.ids.Alloc()
	c.groups.Grow(group)
	*c.groups.At(group) = []uint32{min(a, b), max(a, b)}
	return group
}

// addToGroup adds an object to a group. It reports whether the object is new in the group.
func (c *contributors) addToGroup(group, object uint32) bool {
	objects := c.groups.At(group)
	at, found := slices.BinarySearch(*objects, object)
	if found {
		return false
	}
	*objects = slices.Insert(*objects, at, object)
	return true
}

// removeFromGroup removes an object from a group. It returns the number of remaining objects and
// the first of them.
func (c *contributors) removeFromGroup(group, object uint32) (left int, first uint32) {
	objects := c.groups.At(group)
	if at, found := slices.BinarySearch(*objects, object); found {
		*objects = slices.Delete(*objects, at, at+1)
	}
	return len(*objects), (*objects)[0]
}

// freeGroup frees the number of a group.
func (c *contributors) freeGroup(group uint32) {
	c.ids.Free(group)
	c.groups.Clear(group, &c.ids)
}

// shrinkingMap is a map that frees memory when entries are deleted, which Go maps do not. The zero
// value is empty.
type shrinkingMap[K comparable, V any] struct {
	m    map[K]V
	peak int // maximum number of entries since the map was allocated
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
