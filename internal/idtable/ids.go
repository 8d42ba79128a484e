// SPDX-License-Identifier: Apache-2.0

package idtable

import "math/bits"

// IDs allocates small integers (ids). Alloc always returns the lowest free id, so that arrays with
// ids as indices stay dense. In the zero value of IDs, all ids are free.
type IDs struct {
	used []uint64 // one bit an id
	full []uint64 // one bit for each word of used: 1 if the word has no free id
	hint int      // words of full before this one are all ones
	n    int      // ids in use
}

// Len returns how many ids are in use.
func (p *IDs) Len() int { return p.n }

// Bound returns a number that is greater than every id in use.
func (p *IDs) Bound() int { return len(p.used) * 64 }

// Alloc returns a new id.
func (p *IDs) Alloc() uint32 {
	for p.hint < len(p.full) && p.full[p.hint] == ^uint64(0) {
		p.hint++
	}
	if p.hint == len(p.full) {
		p.full = append(p.full, 0)
	}
	word := p.hint*64 + bits.TrailingZeros64(^p.full[p.hint])
	if word == len(p.used) {
		p.used = append(p.used, 0)
	}
	bit := bits.TrailingZeros64(^p.used[word])
	p.used[word] |= 1 << bit
	if p.used[word] == ^uint64(0) {
		p.full[p.hint] |= 1 << (word % 64)
	}
	p.n++
	return uint32(word*64 + bit)
}

// Free releases an id.
func (p *IDs) Free(id uint32) {
	word := int(id / 64)
	p.used[word] &^= 1 << (id % 64)
	p.full[word/64] &^= 1 << (word % 64)
	p.hint = min(p.hint, word/64)
	p.n--
	if p.n == 0 {
		*p = IDs{}
	}
}

// Has reports whether an id is in use.
func (p *IDs) Has(id uint32) bool {
	return int(id/64) < len(p.used) && p.used[id/64]>>(id%64)&1 != 0
}

// Unused reports whether all ids of a block are free. The parameter size is the number of ids in a
// block, and must be a power of two. Each block begins at a multiple of size. Unused checks the
// block that contains the parameter id.
func (p *IDs) Unused(id, size uint32) bool {
	first := id &^ (size - 1)
	if size < 64 {
		return int(first/64) >= len(p.used) || p.used[first/64]>>(first%64)&(1<<size-1) == 0
	}
	for word := first / 64; word < (first+size)/64 && int(word) < len(p.used); word++ {
		if p.used[word] != 0 {
			return false
		}
	}
	return true
}

// AppendTo appends the ids in use, in order.
func (p *IDs) AppendTo(buf []uint32) []uint32 {
	for word, set := range p.used {
		for ; set != 0; set &= set - 1 {
			buf = append(buf, uint32(word*64+bits.TrailingZeros64(set)))
		}
	}
	return buf
}

// ChunkSize is the number of values that a Column allocates at once. It is a power of two.
const ChunkSize = 128

// Column holds one value for each allocated id (see IDs). It grows and shrinks by chunks, so that
// values are never moved.
type Column[T any] struct {
	chunks []*[ChunkSize]T
}

// Grow allocates the value of an id.
func (c *Column[T]) Grow(id uint32) {
	for len(c.chunks) <= int(id/ChunkSize) {
		c.chunks = append(c.chunks, nil)
	}
	if c.chunks[id/ChunkSize] == nil {
		c.chunks[id/ChunkSize] = new([ChunkSize]T)
	}
}

// At returns the value of an id.
func (c *Column[T]) At(id uint32) *T { return &c.chunks[id/ChunkSize][id%ChunkSize] }

// Clear deletes the value of an id that has just been freed.
func (c *Column[T]) Clear(id uint32, ids *IDs) {
	if !ids.Unused(id, ChunkSize) {
		var zero T
		*c.At(id) = zero
		return
	}
	c.chunks[id/ChunkSize] = nil
	n := len(c.chunks)
	for n > 0 && c.chunks[n-1] == nil {
		n--
	}
	c.chunks = c.chunks[:n]
	if n == 0 {
		c.chunks = nil
	}
}

// Size returns the number of chunks, for tests that look for memory that was not released.
func (c *Column[T]) Size() int { return len(c.chunks) }
