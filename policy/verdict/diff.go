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

// Diff returns the flows whose verdicts differ between two worlds, for example before and after an edit of
// policy. A flow is listed if any part of its Result differs, even if Combined is the same: for example, both
// sides denied it, and one of them still does. Other differences between the explanations, such as the rule
// that decided, are not listed.
//
// Invalid resources are absent, and the changes do not show them. Callers should look at Evaluator.Rejected of
// both worlds first, and use DiffEvaluators.
//
// The changes have the order of the flows. A flow given twice is evaluated twice. Diff reads each world once,
// which takes some tenths of a second for 10,000 policies and as many endpoints. After that a flow costs two
// calls of Evaluator.Evaluate, and a flow that changes also two of Evaluator.Explain. Use DiffEvaluators to
// read the worlds once for many lists of flows.
func Diff(before, after World, flows []Flow) []Change {
	return DiffEvaluators(New(before), New(after), flows)
}

// DiffEvaluators is Diff for two Evaluators, which stay usable.
func DiffEvaluators(before, after *Evaluator, flows []Flow) []Change {
	var changes []Change
	for _, f := range flows {
		if before.Evaluate(f) != after.Evaluate(f) {
			changes = append(changes, Change{Flow: f, Before: before.Explain(f), After: after.Explain(f)})
		}
	}
	return changes
}
