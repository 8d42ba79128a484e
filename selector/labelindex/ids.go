// SPDX-License-Identifier: Apache-2.0

package labelindex

import "math/bits"

// idPool hands out small integers, always the lowest free one, so that what they number stays
// dense.
type idPool struct {
	used []uint64 // one bit an id
	full []uint64 // one bit for each word of used that has no room
	hint int      // words of full before this one are all ones
	n    int      // ids in use
}

func (p *idPool) alloc() uint32 {
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

func (p *idPool) free(id uint32) {
	word := int(id / 64)
	p.used[word] &^= 1 << (id % 64)
	p.full[word/64] &^= 1 << (word % 64)
	p.hint = min(p.hint, word/64)
	p.n--
	if p.n == 0 {
		*p = idPool{}
	}
}

func (p *idPool) has(id uint32) bool {
	return int(id/64) < len(p.used) && p.used[id/64]>>(id%64)&1 != 0
}

// unused reports whether no id of the block of that many, a power of two, around id is in use.
func (p *idPool) unused(id, size uint32) bool {
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

// appendTo appends the ids in use, in order.
func (p *idPool) appendTo(buf []uint32) []uint32 {
	for word, set := range p.used {
		for ; set != 0; set &= set - 1 {
			buf = append(buf, uint32(word*64+bits.TrailingZeros64(set)))
		}
	}
	return buf
}

// chunk is how many values a column allocates at once. A power of two.
const chunk = 128

// column holds one value for each id of an idPool. It grows and shrinks by chunks, so that
// nothing is ever moved and no room is held in reserve.
type column[T any] struct {
	chunks []*[chunk]T
}

// grow makes room for an id.
func (c *column[T]) grow(id uint32) {
	for len(c.chunks) <= int(id/chunk) {
		c.chunks = append(c.chunks, nil)
	}
	if c.chunks[id/chunk] == nil {
		c.chunks[id/chunk] = new([chunk]T)
	}
}

func (c *column[T]) at(id uint32) *T { return &c.chunks[id/chunk][id%chunk] }

// clear forgets the value of an id that has just been freed.
func (c *column[T]) clear(id uint32, ids *idPool) {
	if !ids.unused(id, chunk) {
		var zero T
		*c.at(id) = zero
		return
	}
	c.chunks[id/chunk] = nil
	n := len(c.chunks)
	for n > 0 && c.chunks[n-1] == nil {
		n--
	}
	c.chunks = c.chunks[:n]
	if n == 0 {
		c.chunks = nil
	}
}
