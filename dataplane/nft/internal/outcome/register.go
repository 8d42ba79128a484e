// SPDX-License-Identifier: Apache-2.0

package outcome

import "github.com/wayleave/wayleave/dataplane/nft/ruleset"

// Register is the packet field that has the result of the last lookup while policy evaluates a
// packet. First it has the number of the class, and later the number of the outcome. It is zero if
// the address is in no class.
//
// A result can reach the next lookup only in a field of the packet that rules can set: the priority
// or the mark. nft cannot list rules that use anything else. Other programs use the mark, and a
// rule cannot save the mark's value. Few programs use priorities.
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
