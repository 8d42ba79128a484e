// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"time"

	"github.com/wayleave/wayleave/internal/dispute"
)

const (
	// disputePause is the least time between two repairs of Watch during a dispute: while another
	// process changes objects of ours repeatedly.
	disputePause = time.Second
	// maxRepairs bounds the repaired objects that Watch reports at once.
	maxRepairs = 100
)

// repairs records the objects that were repaired after a change by another process, and detects
// disputes.
type repairs struct {
	// unreported are the repaired objects that Watch has not reported yet; at most maxRepairs.
	unreported []Object
	// disputes detects objects that are changed repeatedly, by their identity.
	disputes dispute.Tracker[any]
}

// record records that an object was repaired, and reports whether a dispute begins. key identifies
// the object.
func (r *repairs) record(key any, o Object, now time.Time) (begins bool) {
	if len(r.unreported) < maxRepairs {
		r.unreported = append(r.unreported, o)
	}
	_, begins = r.disputes.Record(key, now)
	return begins
}

// take returns the objects that were repaired since the last call.
func (r *repairs) take() []Object {
	list := r.unreported
	r.unreported = nil
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
