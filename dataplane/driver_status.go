// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"time"

	"github.com/wayleave/wayleave/policy"
)

// EndpointState says how far the programming of an endpoint is. It is a plain value.
type EndpointState uint8

// The states of an endpoint.
const (
	// EndpointPending: its latest state is being applied.
	EndpointPending EndpointState = iota
	// EndpointUp: its latest state is in every dataplane.
	EndpointUp
	// EndpointFailed: a dataplane reported an error that concerns it. It is being retried.
	EndpointFailed
)

// String returns "pending", "up" or "failed".
func (s EndpointState) String() string {
	switch s {
	case EndpointPending:
		return "pending"
	case EndpointUp:
		return "up"
	case EndpointFailed:
		return "failed"
	default:
		return "unknown"
	}
}

// EndpointStatus is the status of one endpoint. It is plain data.
type EndpointStatus struct {
	// State of the programming.
	State EndpointState
	// Err is why the state is EndpointFailed; otherwise nil.
	Err error
	// Generation counts the updates of the endpoint that were sent since it was new, from 1.
	Generation uint64
}

// Status is what a Driver knows at one moment. It is plain data, and the caller's own.
type Status struct {
	// InSync says that the first complete state is in all dataplanes, objects at fault excepted.
	InSync bool
	// Pending says that something that was sent is not in all dataplanes yet.
	Pending bool
	// LastError is what the last attempt returned; nil if all was well.
	LastError error
	// Failures counts the attempts that failed since the last that did not.
	Failures int
	// Applied counts the batches that have been applied, objects at fault excepted.
	Applied uint64
	// LastDuration is how long the last attempt took.
	LastDuration time.Duration
	// Endpoints that were sent and not removed, host endpoints among them.
	Endpoints map[policy.Key]EndpointStatus
}

// progress is what Status and WaitProgrammed look at. The goroutine of Run writes it, holding the
// lock, and reads it without.
type progress struct {
	Status
	accepted  uint64 // batches handed over
	finished  uint64 // of these, batches that have been through a round
	sawInSync bool
	endpoints map[policy.Key]*endpointProgress
	changed   chan struct{} // closed and replaced after every round
}

// endpointProgress is the latest state of an endpoint and how far it is.
type endpointProgress struct {
	EndpointStatus
	target target
}

func newProgress() progress {
	return progress{endpoints: map[policy.Key]*endpointProgress{}, changed: make(chan struct{})}
}

// accept notes what the batch says before anything is applied.
func (d *Driver) accept(b Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := &d.status
	p.accepted++
	p.Pending = true
	for _, e := range b.Events {
		switch e := e.(type) {
		case *EndpointUpdate:
			p.update(e.Key, e.Endpoint)
		case *EndpointRemove:
			delete(p.endpoints, e.Key)
		case *HostEndpointUpdate:
			p.update(e.Key, e.HostEndpoint)
		case *HostEndpointRemove:
			delete(p.endpoints, e.Key)
		case *InSync:
			p.sawInSync = true
		}
	}
}

// update notes a new state of an endpoint of either kind.
func (p *progress) update(k policy.Key, t target) {
	ep := p.endpoints[k]
	if ep == nil {
		ep = &endpointProgress{}
		p.endpoints[k] = ep
	}
	ep.target = t
	ep.EndpointStatus = EndpointStatus{Generation: ep.Generation + 1}
}

// record notes what came of a round, wakes whoever waits, and reports whether trouble is over.
func (d *Driver) record(result outcome, info AppliedInfo) (recovered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := &d.status
	recovered = p.LastError != nil && info.Err == nil
	p.finished = p.accepted
	p.LastError, p.LastDuration, p.Pending = info.Err, info.Duration, info.Err != nil
	p.Failures++
	if info.Err == nil {
		p.Failures = 0
	}
	if result.general == nil {
		p.Applied = p.finished
		p.InSync = p.sawInSync
	}
	for k, ep := range p.endpoints {
		ep.Err = result.of(k)
		switch {
		case ep.Err != nil:
			ep.State = EndpointFailed
		case p.InSync:
			ep.State = EndpointUp
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
	return recovered
}

// Status returns what the driver knows now.
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

// WaitProgrammed returns once the endpoint (or host endpoint) is programmed in all dataplanes, by the latest state that was sent before the
// call: its policy, then its routes. It waits for an endpoint that was not sent yet. It does not return
// while the endpoint fails; Status says why it does.
//
// Errors: the context's, or ErrStopped.
func (d *Driver) WaitProgrammed(ctx context.Context, endpoint policy.Key) error {
	d.mu.Lock()
	target := d.status.accepted
	d.mu.Unlock()
	for {
		d.mu.Lock()
		ep := d.status.endpoints[endpoint]
		done := ep != nil && ep.State == EndpointUp && d.status.finished >= target
		changed := d.status.changed
		d.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-d.stopped:
			return ErrStopped
		}
	}
}
