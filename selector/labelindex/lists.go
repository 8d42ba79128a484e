// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"math/bits"

	"github.com/wayleave/wayleave/internal/idtable"
)

// list is a short sequence of ids, stored in a lists. The zero list is empty.
type list struct{ n, block uint32 }

// lists stores many short lists, without a pointer or unused words for each. It is a slab
// allocator: each size class has chunks of equal blocks. A list whose length changes to another
// class moves.
type lists struct {
	classes []class
}

// class stores lists in blocks of size words.
type class struct {
	size   uint32
	per    uint32      // blocks in a chunk, a power of two
	ids    idtable.IDs // of blocks
	chunks [][]uint32
}

const (
	exactClasses = 16   // lists up to this length have a class of their own
	chunkWords   = 2048 // maximum words in a chunk of short lists
)

// classOf returns the class for lists of n ids, and its size in words. Above 16 words, there are
// eight classes for each doubling of the size.
func classOf(n uint32) (index int, size uint32) {
	if n <= exactClasses {
		return int(n), n
	}
	shift := bits.Len32(n-1) - 4
	eighth := (n - 1) >> shift // 8 to 15
	return exactClasses + (shift-1)*8 + int(eighth) - 7, (eighth + 1) << shift
}

// get returns the ids of a list. The slice is valid, also for writing, until the list changes.
func (s *lists) get(l list) []uint32 {
	if l.n == 0 {
		return nil
	}
	index, _ := classOf(l.n)
	c := &s.classes[index]
	from := l.block % c.per * c.size
	return c.chunks[l.block/c.per][from : from+l.n : from+l.n]
}

// put sets the ids of a list. ids must not be part of the list.
func (s *lists) put(l *list, ids []uint32) {
	s.resize(l, len(ids))
	copy(s.get(*l), ids)
}

// insert inserts an id at an index of a list.
func (s *lists) insert(l *list, index int, id uint32) {
	old := *l
	before := s.get(old)
	if s.sameClass(old, int(old.n)+1) {
		l.n++
		after := s.get(*l)
		copy(after[index+1:], before[index:])
		after[index] = id
		return
	}
	*l = s.alloc(int(old.n) + 1)
	after := s.get(*l)
	copy(after, before[:index])
	after[index] = id
	copy(after[index+1:], before[index:])
	s.free(old)
}

// removeAt removes the id at an index of a list.
func (s *lists) removeAt(l *list, index int) {
	old := *l
	before := s.get(old)
	if s.sameClass(old, int(old.n)-1) {
		copy(before[index:], before[index+1:])
		l.n--
		return
	}
	*l = s.alloc(int(old.n) - 1)
	after := s.get(*l)
	copy(after, before[:index])
	copy(after[index:], before[index+1:])
	s.free(old)
}

// resize changes the length of a list. Its ids are lost.
func (s *lists) resize(l *list, n int) {
	if s.sameClass(*l, n) {
		l.n = uint32(n)
		return
	}
	s.free(*l)
	*l = s.alloc(n)
}

func (s *lists) sameClass(l list, n int) bool {
	a, _ := classOf(l.n)
	b, _ := classOf(uint32(n))
	return a == b
}

func (s *lists) alloc(n int) list {
	if n == 0 {
		return list{}
	}
	index, size := classOf(uint32(n))
	for len(s.classes) <= index {
		s.classes = append(s.classes, class{})
	}
	c := &s.classes[index]
	if c.size == 0 {
		c.size, c.per = size, 1
		for c.per < idtable.ChunkSize && 2*c.per*size <= chunkWords {
			c.per *= 2
		}
	}
	block := c.ids.Alloc()
	for len(c.chunks) <= int(block/c.per) {
		c.chunks = append(c.chunks, nil)
	}
	if c.chunks[block/c.per] == nil {
		c.chunks[block/c.per] = make([]uint32, c.per*c.size)
	}
	return list{n: uint32(n), block: block}
}

func (s *lists) free(l list) {
	if l.n == 0 {
		return
	}
	index, _ := classOf(l.n)
	c := &s.classes[index]
	c.ids.Free(l.block)
	if c.ids.Unused(l.block, c.per) {
		c.chunks[l.block/c.per] = nil
	}
	if c.ids.Len() == 0 {
		c.chunks = nil
	}
}
