// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"slices"
	"time"
)

// Verdict is the result of a ruleset for the first packet of a flow.
type Verdict uint8

const (
	// Unknown means that the verdict cannot be determined. Such a flow is never ended.
	Unknown Verdict = iota
	// Allowed means that the packet passes.
	Allowed
	// Denied means that the packet is dropped or rejected.
	Denied
)

// Judge returns the verdict of one ruleset on the first packet of a flow. The verdict is Allowed
// only if the packet passes all hooks. So both the egress policy of the source and the ingress
// policy of the destination must allow it. Replies do not matter.
//
// A Judge must always return the same verdict for a flow. It must not keep or change the flow.
// Sweeper.Step calls the Judge on the goroutine of its caller. A nil Judge means Unknown for every
// flow.
type Judge func(*Flow) Verdict

func (j Judge) verdict(f *Flow) Verdict {
	if j == nil {
		return Unknown
	}
	return j(f)
}

// change has the ruleset that was replaced, and the earliest time at which the sweep for this
// change may begin.
type change struct {
	before Judge
	due    time.Time
}

// rules has the rulesets that judge flows. The elements of changes never change.
type rules struct {
	changes []change
	after   Judge
	version uint64 // counts changes
}

// judge returns the verdict of the latest ruleset, and whether the flow must be ended.
func (r *rules) judge(f *Flow) (after Verdict, stale bool) {
	if f.Status&StatusExpected != 0 && f.Master.complete() {
		// An expected flow gets the verdict of its master.
		f = &Flow{Original: f.Master, Reply: f.Master.reverse(), Zone: f.Zone}
	}
	if after = r.after.verdict(f); after != Denied {
		return after, false
	}
	return after, slices.ContainsFunc(r.changes, func(c change) bool { return c.before.verdict(f) == Allowed })
}
