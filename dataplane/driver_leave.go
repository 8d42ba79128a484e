// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"context"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// removal is an endpoint that is being removed, from the last dataplane to the first. While a
// dataplane fails to remove the endpoint, the kernel may still have a route to it. The earlier
// dataplanes then keep the endpoint down and without policy, so its packets are dropped.
type removal struct {
	// next is the index of the backend that removes the endpoint next. The backends after next have
	// removed it.
	next int
	// blocked is the state of the endpoint in the backends before next.
	blocked *Endpoint
}

// removeEndpoints removes endpoints from all backends but the first. These are the endpoints that
// the batch removes, and the endpoints of earlier batches that a backend has failed to remove. A
// backend removes an endpoint only after all later backends have. The result has the error of each
// backend.
func (p *pipeline) removeEndpoints(ctx context.Context, b Batch) []error {
	for _, e := range b.Events {
		switch e := e.(type) {
		case *EndpointUpdate:
			delete(p.leaving, e.Key)
		case *EndpointRemove:
			p.leaving[e.Key] = &removal{next: len(p.backends) - 1}
		}
	}
	errs := make([]error, len(p.backends))
	for i := len(p.backends) - 1; i > 0; i-- {
		var keys []policy.Key
		for k, l := range p.leaving {
			if l.next == i {
				keys = append(keys, k)
			}
		}
		slices.SortFunc(keys, policy.Key.Compare)
		errs[i] = p.backends[i].remove(ctx, keys)
		for _, k := range keys {
			if last := p.backends[i].stuck[k]; last != nil {
				p.leaving[k].blocked = last.blocked()
				p.block(k, i)
			} else {
				p.leaving[k].next--
			}
		}
	}
	return errs
}

// block makes the endpoint blocked in the backends between the first one and the one that failed to
// remove it.
func (p *pipeline) block(k policy.Key, stuck int) {
	for _, be := range p.backends[1:stuck] {
		if be.known[k] != nil {
			be.withheld[k] = p.leaving[k].blocked
		}
	}
}

// firstBatch returns the batch for the first backend. This batch removes the endpoints that all
// other backends have removed. If another backend failed to remove an endpoint, the first backend
// keeps it as blocked: its packets are dropped.
func (p *pipeline) firstBatch(b Batch) Batch {
	if len(p.leaving) == 0 {
		return b
	}
	var events []Event
	for _, e := range b.Events {
		if r, ok := e.(*EndpointRemove); !ok {
			events = append(events, e)
		} else if l := p.leaving[r.Key]; l.next > 0 {
			events = append(events, &EndpointUpdate{Key: r.Key, Endpoint: l.blocked})
		}
	}
	for k, l := range p.leaving {
		if l.next == 0 {
			delete(p.leaving, k)
			events = append(events, &EndpointRemove{Key: k})
		}
	}
	SortEvents(events)
	return Batch{Events: events}
}

// remove removes endpoints from the dataplane. The endpoints that it fails to remove are in
// be.stuck afterwards.
func (be *backend) remove(ctx context.Context, keys []policy.Key) error {
	var part Batch
	again := false
	last := map[policy.Key]*Endpoint{}
	for _, k := range keys {
		delete(be.withheld, k)
		again = again || be.stuck[k] != nil
		last[k] = cmp.Or(be.known[k], be.stuck[k])
		if be.known[k] != nil {
			delete(be.known, k)
			part.Events = append(part.Events, &EndpointRemove{Key: k})
		}
	}
	if part.Empty() && !again {
		return nil
	}
	err := be.apply(ctx, part)
	be.failing = err != nil
	objects, general := ApplyErrors(err)
	for _, k := range keys {
		delete(be.stuck, k)
		if last[k] != nil && (general || objects[k] != nil) {
			be.stuck[k] = last[k]
		}
	}
	return err
}

// blocked returns the endpoint as down and without policy.
func (e *Endpoint) blocked() *Endpoint {
	return &Endpoint{Interface: e.Interface, Addresses: e.Addresses, MAC: e.MAC, Down: true}
}
