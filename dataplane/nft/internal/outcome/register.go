// SPDX-License-Identifier: Apache-2.0

package outcome

import "github.com/wayleave/wayleave/dataplane/nft/ruleset"

// Register is the field of a packet in which rules keep the result of a lookup: the packet's
// priority (meta priority). The first lookup finds the class of the peer's address, and the next
// one finds the outcome of that class. The priority first has the number of the class, and then the
// number of the outcome. It is zero if the address is in no class.
//
// Rules must keep the result of one lookup, because it is the key of the next. They can keep it in
// the packet's priority or in its mark. (If they keep it anywhere else, nft cannot list the rules.)
// The mark is not suitable: other programs use it, and rules cannot save its value and restore it
// later. Few programs use the priority.
const Register = ruleset.Priority

const (
	// firstOutcome is the highest bit. In numbers of outcomes, this bit is set and the next one is
	// clear. In numbers of classes, this bit is clear.
	firstOutcome uint32 = 1 << 31
	// Reserved is the first of the numbers that no class or outcome has. The caller may use these
	// numbers, except for the one with all bits set, which is the root of tc.
	Reserved uint32 = firstOutcome + 1<<30 - 4
)

// classNumber returns a valid number of a class for a hash.
func classNumber(hash uint32) uint32 {
	return max(1, hash&^firstOutcome)
}

// outcomeNumber returns a valid number of an outcome for a hash.
func outcomeNumber(hash uint32) uint32 {
	return min(Reserved-1, hash&^(1<<30)|firstOutcome)
}
