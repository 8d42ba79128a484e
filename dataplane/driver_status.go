// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"slices"
	"time"

	"github.com/wayleave/wayleave/policy"
)

// EndpointState is the progress of programming an endpoint.
type EndpointState uint8

// The states of an endpoint.
const (
	// EndpointPending: the latest state of the endpoint is being applied, or a dataplane continues
	// to program it after Apply has returned (see ApplyError.Pending).
	EndpointPending EndpointState = iota
	// EndpointUp: the latest state of the endpoint is in every dataplane.
	EndpointUp
	// EndpointFailed: a dataplane reported an error of the endpoint, or of an object that it refers
	// to. The Driver retries.
	EndpointFailed
	// EndpointDown: the interface of the endpoint does not exist or is down, so a dataplane could
	// not program the endpoint completely. The dataplanes before this one have the endpoint's
	// policy. Every endpoint is down for a short time when its workload starts or ends, so this is
	// no failure and is not retried. When the dataplane reports the interface, the endpoint is
	// programmed.
	EndpointDown
)

// String returns "pending", "up", "failed" or "down".
func (s EndpointState) String() string {
	switch s {
	case EndpointPending:
		return "pending"
	case EndpointUp:
		return "up"
	case EndpointFailed:
		return "failed"
	case EndpointDown:
		return "down"
	default:
		return "unknown"
	}
}

// EndpointStatus is the status of one endpoint.
type EndpointStatus struct {
	// State of the programming.
	State EndpointState
	// Err is the reason why the state is EndpointFailed or EndpointDown. Err is also set if the
	// state is EndpointPending because a dataplane continues to program after Apply has returned.
	// Otherwise Err is nil. Err may be an *ApplyError with an Object. Then the Object is at fault,
	// down or pending. It is the endpoint itself, or a policy or profile that the endpoint refers
	// to.
	Err error
	// Unjudged is a text for people. If there is traffic of the endpoint that policy does not see,
	// the text describes this traffic and gives the reason. Otherwise it is empty. An endpoint may
	// be up although it has such a text. See Limited.
	Unjudged string
	// Generation is the number of updates that were sent for the endpoint since it was added. The
	// update that adds the endpoint is number 1.
	Generation uint64
}

// Status is the status of a Driver at one moment. It is a copy, which the caller may change.
type Status struct {
	// InSync is set once the first complete state is in all dataplanes, except for objects at
	// fault.
	InSync bool
	// Pending is set while a dataplane has not yet programmed everything that was sent to the
	// Driver. Endpoints that are down do not count.
	Pending bool
	// LastError is the error of the last attempt; nil if it succeeded. That an endpoint is down is
	// no error.
	LastError error
	// Failures counts the failed attempts since the last success.
	Failures int
	// Applied is the number of applied batches. A batch counts even if some of its objects are at
	// fault, down or pending.
	Applied uint64
	// LastDuration is the time that the last attempt took.
	LastDuration time.Duration
	// Endpoints has all endpoints and host endpoints that were sent and not removed.
	Endpoints map[policy.Key]EndpointStatus
}

// progress has what Status, the Wait methods and EndpointChanges report. The Driver's lock guards
// it.
type progress struct {
	Status
	accepted    uint64 // batches handed over
	finished    uint64 // of these, batches whose round has ended
	endpoints   map[policy.Key]*endpointProgress
	leaving     map[policy.Key]uint64 // endpoints that may still be in a dataplane, by the batch that removed them
	changed     chan struct{}         // closed and replaced after every round
	subscribers map[*subscriber]struct{}
}

// endpointProgress is the progress of programming the latest state of an endpoint.
type endpointProgress struct {
	EndpointStatus
	// sent is the number of the batch with the latest state.
	sent uint64
	// endpoint is the latest state; nil for a host endpoint.
	endpoint *Endpoint
	// down is set if the endpoint was EndpointDown after the last round, even if a newer state is
	// pending now.
	down bool
}

func newProgress() progress {
	return progress{
		endpoints:   map[policy.Key]*endpointProgress{},
		leaving:     map[policy.Key]uint64{},
		changed:     make(chan struct{}),
		subscribers: map[*subscriber]struct{}{},
	}
}

// accept records the endpoints of a batch before it is applied.
func (p *progress) accept(b Batch) {
	p.accepted++
	p.Pending = true
	for _, e := range b.Events {
		switch e := e.(type) {
		case *EndpointUpdate:
			p.update(e.Key, e.Endpoint)
		case *EndpointRemove:
			p.remove(e.Key)
		case *HostEndpointUpdate:
			p.update(e.Key, nil)
		case *HostEndpointRemove:
			p.remove(e.Key)
		}
	}
}

// update records a new state of an endpoint. The state of a host endpoint is nil.
func (p *progress) update(k policy.Key, state *Endpoint) {
	ep := p.endpoints[k]
	if ep == nil {
		ep = &endpointProgress{}
		p.endpoints[k] = ep
	}
	delete(p.leaving, k)
	ep.sent, ep.endpoint = p.accepted, state
	ep.EndpointStatus = EndpointStatus{Generation: ep.Generation + 1}
	p.markChanged(k)
}

func (p *progress) remove(k policy.Key) {
	if p.endpoints[k] != nil {
		delete(p.endpoints, k)
		p.leaving[k] = p.accepted
		p.markChanged(k)
	}
}

// record records the result of a round, and wakes waiting goroutines. last is the number of its
// last batch. It reports recovery: the round before failed and this one did not. It returns the
// endpoints that are down and were not down before.
func (p *progress) record(
	result *roundResult, info AppliedInfo, last uint64,
) (recovered bool, down []policy.Key) {
	recovered = p.LastError != nil && info.Err == nil
	p.finished = last
	p.LastError, p.LastDuration = info.Err, info.Duration
	p.Pending = info.Err != nil || p.accepted > last || result.pends()
	p.Failures++
	if info.Err == nil {
		p.Failures = 0
	}
	if result.general == nil {
		p.Applied = last
		p.InSync = result.inSync
	}
	for k, ep := range p.endpoints {
		if ep.sent <= last {
			p.conclude(k, ep, result)
			if is := ep.State == EndpointDown; is != ep.down {
				if ep.down = is; is {
					down = append(down, k)
				}
			}
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
	slices.SortFunc(down, policy.Key.Compare)
	return recovered, down
}

// conclude records the result for an endpoint. If the status differs from the one before, it marks
// the endpoint as changed.
func (p *progress) conclude(k policy.Key, ep *endpointProgress, result *roundResult) {
	state, err, unjudged := EndpointPending, result.of(k), result.unjudged[k]
	switch waits := result.waits(k); {
	case waits != nil && waits.Down:
		state = EndpointDown
	case waits != nil:
	case err != nil:
		state = EndpointFailed
	case p.InSync:
		state = EndpointUp
	}
	changed := state != ep.State || unjudged != ep.Unjudged || (err == nil) != (ep.Err == nil) ||
		err != nil && err.Error() != ep.Err.Error()
	ep.State, ep.Err, ep.Unjudged = state, err, unjudged
	if changed {
		p.markChanged(k)
	}
}

// Status returns the present status.
func (d *Driver) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.status.Status
	s.Endpoints = make(map[policy.Key]EndpointStatus, len(d.status.endpoints))
	for k, ep := range d.status.endpoints {
		s.Endpoints[k] = ep.EndpointStatus
	}
	return s
}
