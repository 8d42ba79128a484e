// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
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
	of     func(hash uint32) uint32
	taken  map[uint32]*numbered
	others int // with a number that is not their first
}

func newNumbers(of func(uint32) uint32) numbers {
	return numbers{of: of, taken: map[uint32]*numbered{}}
}

// add gives x its number. It reports whether another's number has become a different one, which happens once in a billion times.
func (n *numbers) add(x *numbered) (moved bool) {
	for {
		x.number = n.of(contentHash(x.content, x.tries))
		other := n.taken[x.number]
		if other == nil {
			break
		}
		if other.content > x.content {
			n.taken[x.number] = x
			x, moved = other, true
		}
		if x.tries == 0 {
			n.others++
		}
		x.tries++
	}
	n.taken[x.number] = x
	return moved
}

// remove takes the number back. It reports likewise.
func (n *numbers) remove(x *numbered) (moved bool) {
	delete(n.taken, x.number)
	if x.tries > 0 {
		n.others--
	}
	if n.others == 0 {
		return false
	}
	all := slices.Collect(maps.Values(n.taken))
	before := make([]uint32, len(all))
	n.taken, n.others = map[uint32]*numbered{}, 0
	for i, o := range all {
		before[i], o.tries = o.number, 0
	}
	for _, o := range all {
		n.add(o)
	}
	for i, o := range all {
		moved = moved || o.number != before[i]
	}
	return moved
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
// The packet's mark would be the other choice; but that others use, and of what it was before, nothing can be kept anywhere. Priorities are few.
const carrier = ruleset.Priority

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
