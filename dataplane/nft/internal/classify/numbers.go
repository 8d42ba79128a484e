// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Numbered is an entry of Numbers: a class, or an outcome (the short chain with the rules for a
// class). Numbers assigns a number to each entry. A rule stores the number in the packet's
// metadata, and a later rule looks it up. The content of an entry is a text that identifies the
// class or outcome.
type Numbered struct {
	content string
	number  uint32
	// tries counts the failed hashes of the content. The number is made from a hash of the content.
	// A hash fails if an entry that sorts before this one has the same number. Then Numbers tries
	// the next hash.
	tries uint32
}

// NewNumbered returns a Numbered without a number.
func NewNumbered(content string) Numbered { return Numbered{content: content} }

// Number returns the current number. Each call of Numbers.Add or Numbers.Remove may change it.
func (n *Numbered) Number() uint32 { return n.number }

// Content returns the text that identifies the class or outcome. The number is made from a hash of
// this text.
func (n *Numbered) Content() string { return n.content }

// Numbers assigns a unique number to each of its entries (see Numbered). The numbers depend only on
// the contents of the current entries, and not on the order in which the entries were added. So a
// restarted process programs the same numbers.
//
// The content of each entry has an endless sequence of hashes. An entry first tries the number that
// is made from its first hash. If two entries try the same number, the entry that sorts first (by
// its content, as a string) gets the number. The other entry tries the number of its next hash.
// (This is an ordered hash table, Amble and Knuth 1974.)
type Numbers struct {
	// number is the parameter of NewNumbers.
	number func(hash uint32) uint32
	taken  map[uint32]*Numbered
	// passed has, for each number, the entries that tried the number but did not get it, because an
	// entry that sorts before them has it. An entry that tried the number with several of its
	// hashes is in the list once for each of these hashes.
	passed map[uint32][]*Numbered
}

// NewNumbers returns Numbers without entries. The parameter is a function that converts a hash into
// a valid number of a class or outcome.
func NewNumbers(number func(hash uint32) uint32) Numbers {
	return Numbers{number: number, taken: map[uint32]*Numbered{}, passed: map[uint32][]*Numbered{}}
}

// try returns the number that is made from the nth hash of x, counted from zero.
func (n *Numbers) try(x *Numbered, nth uint32) uint32 { return n.number(contentHash(x.content, nth)) }

// Add adds the entry x and assigns a number to it. It returns true if this changes the number of
// another entry: x then gets the number of an entry that sorts after it.
func (n *Numbers) Add(x *Numbered) (moved bool) {
	for {
		x.number = n.try(x, x.tries)
		other := n.taken[x.number]
		if other == nil {
			break
		}
		if other.content > x.content {
			n.taken[x.number] = x
			x, moved = other, true
		}
		n.passed[x.number] = append(n.passed[x.number], x)
		x.tries++
	}
	n.taken[x.number] = x
	return moved
}

// Remove removes the entry x and frees its number. It returns true if this changes the number of
// another entry. Some entries may have tried this number without success. If so, the first of them
// in sorted order gets it. Its own former number becomes free, and Remove repeats this step for
// that number.
func (n *Numbers) Remove(x *Numbered) (moved bool) {
	n.removeTries(x, 0)
	free := x.number
	for {
		delete(n.taken, free)
		waiting := n.passed[free]
		if len(waiting) == 0 {
			return moved
		}
		successor := slices.MinFunc(waiting, func(a, b *Numbered) int { return cmp.Compare(a.content, b.content) })
		next := successor.number
		first := uint32(0)
		for n.try(successor, first) != free {
			first++
		}
		n.removeTries(successor, first)
		successor.number = free
		n.taken[free] = successor
		free, moved = next, true
	}
}

// removeTries removes x from passed for all hashes from the nth on.
func (n *Numbers) removeTries(x *Numbered, nth uint32) {
	for ; x.tries > nth; x.tries-- {
		number := n.try(x, x.tries-1)
		i := slices.Index(n.passed[number], x)
		if n.passed[number] = slices.Delete(n.passed[number], i, i+1); len(n.passed[number]) == 0 {
			delete(n.passed, number)
		}
	}
}

func contentHash(content string, try uint32) uint32 {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint32(nil, try))
	h.Write([]byte(content))
	return binary.BigEndian.Uint32(h.Sum(nil))
}

// Len returns how many entries there are.
func (n *Numbers) Len() int { return len(n.taken) }
