// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"math/bits"
	"slices"
)

// bitmap is a large set of ids. It has parts of 65,536 ids, as a roaring bitmap has. Each part has
// the lower halves of its ids as a sorted array, or as one bit an id if that is smaller.
type bitmap struct {
	parts []part // sorted by high
}

type part struct {
	high  uint32 // the upper half of the ids
	n     int
	array []uint16
	bits  []uint64 // if not nil, the part has no array
}

const (
	partBits = 1 << 16
	maxArray = partBits / 16         // ids in an array as large as the bits
	minBits  = maxArray - maxArray/4 // lower than maxArray, so that a part near the limit is not converted repeatedly
)

// find returns the index of the part for an id, or the index to insert it at.
func (b *bitmap) find(id uint32) (int, bool) {
	high := id >> 16
	if n := len(b.parts); n > 0 && b.parts[n-1].high == high {
		return n - 1, true // ids often come in order
	}
	return slices.BinarySearchFunc(b.parts, high, func(p part, high uint32) int { return int(p.high) - int(high) })
}

// add adds an id. It reports whether the id is new.
func (b *bitmap) add(id uint32) bool {
	i, ok := b.find(id)
	if !ok {
		b.parts = slices.Insert(b.parts, i, part{high: id >> 16})
	}
	return b.parts[i].add(uint16(id))
}

// remove removes an id. It reports whether the bitmap had the id.
func (b *bitmap) remove(id uint32) bool {
	i, ok := b.find(id)
	if !ok || !b.parts[i].remove(uint16(id)) {
		return false
	}
	if b.parts[i].n == 0 {
		b.parts = slices.Delete(b.parts, i, i+1)
	}
	return true
}

func (b *bitmap) has(id uint32) bool {
	i, ok := b.find(id)
	return ok && b.parts[i].has(uint16(id))
}

func (b *bitmap) appendTo(buf []uint32) []uint32 {
	for i := range b.parts {
		buf = b.parts[i].appendTo(buf)
	}
	return buf
}

func (p *part) add(low uint16) bool {
	if p.bits != nil {
		word, bit := low/64, uint64(1)<<(low%64)
		if p.bits[word]&bit != 0 {
			return false
		}
		p.bits[word] |= bit
		p.n++
		return true
	}
	if n := len(p.array); n == 0 || p.array[n-1] < low {
		p.array = append(p.array, low)
	} else {
		i, found := slices.BinarySearch(p.array, low)
		if found {
			return false
		}
		p.array = slices.Insert(p.array, i, low)
	}
	p.n++
	if p.n > maxArray {
		p.toBits()
	}
	return true
}

func (p *part) remove(low uint16) bool {
	if p.bits != nil {
		word, bit := low/64, uint64(1)<<(low%64)
		if p.bits[word]&bit == 0 {
			return false
		}
		p.bits[word] &^= bit
		p.n--
		if p.n < minBits {
			p.toArray()
		}
		return true
	}
	i, found := slices.BinarySearch(p.array, low)
	if !found {
		return false
	}
	p.array = slices.Delete(p.array, i, i+1)
	p.n--
	if cap(p.array) > 4*p.n+16 {
		p.array = slices.Clone(p.array)
	}
	return true
}

func (p *part) has(low uint16) bool {
	if p.bits != nil {
		return p.bits[low/64]&(1<<(low%64)) != 0
	}
	_, found := slices.BinarySearch(p.array, low)
	return found
}

func (p *part) toBits() {
	p.bits = make([]uint64, partBits/64)
	for _, low := range p.array {
		p.bits[low/64] |= 1 << (low % 64)
	}
	p.array = nil
}

func (p *part) toArray() {
	p.array = make([]uint16, 0, p.n)
	for word, set := range p.bits {
		for ; set != 0; set &= set - 1 {
			p.array = append(p.array, uint16(word*64+bits.TrailingZeros64(set)))
		}
	}
	p.bits = nil
}

func (p *part) appendTo(buf []uint32) []uint32 {
	high := p.high << 16
	for _, low := range p.array {
		buf = append(buf, high|uint32(low))
	}
	for word, set := range p.bits {
		for ; set != 0; set &= set - 1 {
			buf = append(buf, high|uint32(word*64+bits.TrailingZeros64(set)))
		}
	}
	return buf
}
