// SPDX-License-Identifier: Apache-2.0

package outcome

import "github.com/wayleave/wayleave/dataplane/nft/ruleset"

// Register is the field of a packet in which rules keep the result of a lookup: the packet's
// priority (meta priority). It first has the number of the class of the peer's address, and then
// the number of the outcome of this class. It is zero if the address is in no class.
//
// The packet's mark is not suitable: other programs use the mark, and rules cannot restore its
// value. Few programs use the priority. If the result were in any other place, nft could not list
// the rules.
const Register = ruleset.Priority

const (
	// firstOutcome is the highest bit. In numbers of outcomes, this bit is set and the next one is
	// clear. In numbers of classes, this bit is clear.
	firstOutcome uint32 = 1 << 31
	// Reserved is the first of the numbers that no class or outcome has. The caller may use these
	// numbers, except for 0xffffffff: as a packet's priority, it means the root of traffic control
	// (TC_H_ROOT).
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
