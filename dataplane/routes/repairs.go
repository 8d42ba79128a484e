// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"slices"
	"time"

	"github.com/wayleave/wayleave/internal/dispute"
)

const (
	// disputePause is the least time between two repairs of Watch during a dispute: while another
	// process changes objects of ours repeatedly.
	disputePause = time.Second
	// maxRepairs bounds the repaired objects that Watch reports at once: the rules, and the other
	// objects.
	maxRepairs = 100
)

// repairs records the objects that were repaired after a change by another process, and detects
// disputes.
type repairs struct {
	// unreported are the repaired objects that Watch has not reported yet, in two lists: the rules,
	// and the other objects. Each has at most maxRepairs.
	unreported [2][]Object
	// disputes detects objects that are changed repeatedly, by their identity.
	disputes dispute.Tracker[any]
}

// record records that an object was repaired, and reports whether a dispute begins. key identifies
// the object.
func (r *repairs) record(key any, o Object, now time.Time) (begins bool) {
	list := &r.unreported[1]
	if _, isRule := o.(Rule); isRule { // while a rule is missing, it can matter for all packets
		list = &r.unreported[0]
	}
	if len(*list) < maxRepairs {
		*list = append(*list, o)
	}
	_, begins = r.disputes.Record(key, now)
	return begins
}

// any reports whether take has objects to return.
func (r *repairs) any() bool { return len(r.unreported[0])+len(r.unreported[1]) > 0 }

// take returns the objects that were repaired since the last call.
func (r *repairs) take() []Object {
	list := slices.Concat(r.unreported[:]...)
	r.unreported = [2][]Object{}
	return list
}

// recordRepair records that an object was repaired after another process changed it. key identifies
// the object.
func (p *pass) recordRepair(key any, o Object) {
	if p.repairs.record(key, o, p.view.now()) {
		p.cfg.Logger.Warn("another process changes an object repeatedly; it may use the same protocol number",
			"object", o.String(), "protocol", p.cfg.Protocol)
	}
}

// keepsUnwanted reports whether unwanted objects that another process made stay for now. They do
// during a dispute: two processes with one protocol number would otherwise remove each other's
// routes without end.
func (p *pass) keepsUnwanted() bool {
	if p.view.stores.tearingDown || !p.repairs.disputes.Any(p.view.now()) {
		return false
	}
	p.result.wait(p.view.now().Add(dispute.Quiet))
	return true
}
