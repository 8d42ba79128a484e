// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"slices"
	"time"
)

// Verdict is what a ruleset does with the first packet of a flow.
type Verdict uint8

const (
	// Unknown means that it cannot be told. Such a flow is never ended.
	Unknown Verdict = iota
	// Allowed means that the packet gets through.
	Allowed
	// Denied means that it is dropped or rejected.
	Denied
)

// Judge says what one ruleset does with the first packet of a flow, in its original direction, past
// every hook that it meets on the node: out of the source's endpoint and into the destination's. Of
// replies nothing is asked: they follow from the first packet. It must not keep or change the flow,
// is called from the goroutine of Step, and has to give the same answer whenever it is asked: the
// ruleset that it stands for must not change. A nil Judge says Unknown.
type Judge func(*Flow) Verdict

func (j Judge) says(f *Flow) Verdict {
	if j == nil {
		return Unknown
	}
	return j(f)
}

// change is a ruleset that was replaced, and the earliest time at which a sweep for it may begin.
type change struct {
	before Judge
	due    time.Time
}

// rules are what flows are judged by. The slice is never changed in place but at its end.
type rules struct {
	changes []change
	after   Judge
	version uint64 // counts changes
}

// judge returns what the latest ruleset says, and whether the flow is to be ended.
func (r *rules) judge(f *Flow) (after Verdict, stale bool) {
	if f.Status&StatusExpected != 0 && f.Master.whole() {
		// It was let in with its master, and goes with it.
		f = &Flow{Original: f.Master, Reply: f.Master.reverse(), Zone: f.Zone}
	}
	if after = r.after.says(f); after != Denied {
		return after, false
	}
	return after, slices.ContainsFunc(r.changes, func(c change) bool { return c.before.says(f) == Allowed })
}
