// SPDX-License-Identifier: Apache-2.0

package verdict

import "fmt"

// Change is a flow that two worlds judge differently. String writes it for people, encoding/json
// for programs. It is a plain value: safe to read from many goroutines while none changes it.
type Change struct {
	// Flow as it was given.
	Flow Flow `json:"flow"`
	// Before is the verdict of the first world, with the work shown.
	Before *Explanation `json:"before"`
	// After is the verdict of the second world.
	After *Explanation `json:"after"`
}

// String writes the change over several lines: what the verdict was and becomes, then both
// explanations. The text is not meant to be parsed and may change.
func (c Change) String() string {
	return fmt.Sprintf("%s: %s, was %s\nbefore: %safter: %s",
		c.Flow, c.After.Result.Combined, c.Before.Result.Combined, c.Before, c.After)
}

// Diff returns which of the flows change their verdict when one world takes the place of another:
// what a change of policy would do, before it is made. A flow is listed where any part of its
// Result differs, even if Combined is the same: a flow that both sides denied and one
// still denies is a change. Other differences between the explanations, as in which rule
// decided, are none.
//
// A resource that is invalid is absent from the verdicts, and the changes do not show it: a new
// policy with a mistake in it changes what its absence changes, or nothing. Callers should look at
// Evaluator.Rejected of both worlds first, and use DiffEvaluators.
//
// The flows are judged in the order given, and the changes are in that order; a flow given twice is
// judged twice. Each world is read once, which for 10,000 policies and as many endpoints takes
// some tenths of a second; after that a flow costs two times Evaluator.Evaluate, and
// one that changes two times Evaluator.Explain on top. Use DiffEvaluators to read the
// worlds once for many lists of flows.
func Diff(before, after World, flows []Flow) []Change {
	return DiffEvaluators(New(before), New(after), flows)
}

// DiffEvaluators is Diff for worlds that have been read. Both evaluators stay usable.
func DiffEvaluators(before, after *Evaluator, flows []Flow) []Change {
	var changes []Change
	for _, f := range flows {
		if before.Evaluate(f) != after.Evaluate(f) {
			changes = append(changes, Change{Flow: f, Before: before.Explain(f), After: after.Explain(f)})
		}
	}
	return changes
}
