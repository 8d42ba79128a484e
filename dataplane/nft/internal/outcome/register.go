// SPDX-License-Identifier: Apache-2.0

package outcome

import "github.com/wayleave/wayleave/dataplane/nft/ruleset"

// Register is the packet field that holds the result of the last lookup while policy evaluates a
// packet. It is zero if the address is in no class. Otherwise it is first the number of the class,
// then the number of the outcome.
//
// A result can reach the next lookup only in a field of the packet: its priority or its mark. nft
// cannot list any other way. Other programs use the mark, and a rule cannot save its former value.
// Few programs use priorities.
const Register = ruleset.Priority

const (
	// firstOutcome is the highest bit. Numbers of outcomes have it set and the next one clear, those of
	// classes have it clear.
	firstOutcome uint32 = 1 << 31
	// Reserved is the first of the numbers that no class or outcome has. The caller may give them a
	// meaning, except all ones, which is the root of tc.
	Reserved uint32 = firstOutcome + 1<<30 - 4
)

// classNumber returns a valid number of a class.
func classNumber(hash uint32) uint32 {
	return max(1, hash&^firstOutcome)
}

// outcomeNumber returns a valid number of an outcome.
func outcomeNumber(hash uint32) uint32 {
	return min(Reserved-1, hash&^(1<<30)|firstOutcome)
}
