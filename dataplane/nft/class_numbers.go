// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// numbered is something that packets carry as a number for a moment: see numbers.
type numbered struct {
	content string
	number  uint32
	tries   uint32
}

// numbers gives each content a number of its own that depends on the contents there are, not on the order in which they came: what
// is programmed after a restart must equal what was there before. A content's number is the first of its hashes that no smaller content
// has (an ordered hash table, Amble and Knuth 1974).
type numbers struct {
	// of makes a number of a content's hash: it says which ones may be had.
	of    func(hash uint32) uint32
	taken map[uint32]*numbered
	// passed has, for numbers that are not the first of all who hash to them, those who had to pass on: once for each try.
	passed map[uint32][]*numbered
}

func newNumbers(of func(uint32) uint32) numbers {
	return numbers{of: of, taken: map[uint32]*numbered{}, passed: map[uint32][]*numbered{}}
}

// try returns the number that a content has at its nth try.
func (n *numbers) try(x *numbered, nth uint32) uint32 { return n.of(contentHash(x.content, nth)) }

// add gives x its number. It reports whether another's number has become a different one, which is as likely as that two of all there are collide.
func (n *numbers) add(x *numbered) (moved bool) {
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

// remove takes the number back. It reports likewise: of those that had to pass it, the smallest has it now, and gives its own to others.
func (n *numbers) remove(x *numbered) (moved bool) {
	n.forgetTries(x, 0)
	free := x.number
	for {
		delete(n.taken, free)
		waiting := n.passed[free]
		if len(waiting) == 0 {
			return moved
		}
		heir := slices.MinFunc(waiting, func(a, b *numbered) int { return cmp.Compare(a.content, b.content) })
		next := heir.number
		first := uint32(0)
		for n.try(heir, first) != free {
			first++
		}
		n.forgetTries(heir, first)
		heir.number = free
		n.taken[free] = heir
		free, moved = next, true
	}
}

// forgetTries takes back all tries of x from the nth on.
func (n *numbers) forgetTries(x *numbered, nth uint32) {
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

// carrier is what of a packet holds the number that has been looked up last while policy looks at it: zero for an address in no class, then the
// class, then the outcome, in the end carryAllowed or not.
//
// The packet's mark would be the other choice; but others use marks, and what one was before could be kept nowhere. Priorities are few.
const carrier = ruleset.Priority

// Numbers of outcomes have the highest bit, those of classes have not. The one that says "allowed" is nobody's; all ones is what tc calls root.
const (
	carryOutcome uint32 = 1 << 31
	carryAllowed uint32 = 1<<32 - 2
)

func classNumber(hash uint32) uint32 {
	return max(1, hash&^carryOutcome)
}

func outcomeNumber(hash uint32) uint32 {
	return min(carryAllowed-1, hash|carryOutcome)
}
