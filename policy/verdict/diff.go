// SPDX-License-Identifier: Apache-2.0

package verdict

import "fmt"

// Change is a flow with different verdicts in two Worlds. A World has all resources of a cluster at
// one moment. String returns a text for people, and encoding/json encodes a Change for programs.
type Change struct {
	// Flow as in the call of Diff.
	Flow Flow `json:"flow"`
	// Before is the verdict in the first world.
	Before *Explanation `json:"before"`
	// After is the verdict in the second world.
	After *Explanation `json:"after"`
}

// String returns several lines: both verdicts, then both explanations. The text is for people and
// may change.
func (c Change) String() string {
	return fmt.Sprintf("%s: %s, was %s\nbefore: %safter: %s",
		c.Flow, c.After.Result.Combined, c.Before.Result.Combined, c.Before, c.After)
}

// Diff returns the flows with different verdicts in two worlds, for example before and after a
// change of policy. A flow is returned if any part of its Result differs, even if Combined is the
// same. For example, Egress and Ingress denied the flow before, and now only Ingress denies it.
// Other differences between the explanations, such as the rule that decided, do not count.
//
// Diff treats invalid resources as absent, and does not report them. To find them, make an
// Evaluator of each world with New, and check Evaluator.Rejected. Then call DiffEvaluators instead
// of Diff.
//
// The changes have the order of the flows. Diff compiles each world once, which takes some tenths
// of a second for 10,000 policies and as many endpoints. For each flow, Diff then calls
// Evaluator.Evaluate twice, and for each changed flow also Evaluator.Explain twice. To compare
// several lists of flows, use DiffEvaluators: the worlds are then compiled only once.
func Diff(before, after World, flows []Flow) []Change {
	return DiffEvaluators(New(before), New(after), flows)
}

// DiffEvaluators is Diff for two Evaluators.
func DiffEvaluators(before, after *Evaluator, flows []Flow) []Change {
	var changes []Change
	for _, f := range flows {
		if before.Evaluate(f) != after.Evaluate(f) {
			changes = append(changes, Change{Flow: f, Before: before.Explain(f), After: after.Explain(f)})
		}
	}
	return changes
}
