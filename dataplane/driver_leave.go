// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"context"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// leaver is an endpoint on its way out, which leads from the last dataplane to the first. While one
// of them fails to remove it, those before keep it, without policy and down: its traffic stays
// blocked as long as a route may lead to it.
type leaver struct {
	// next is the index of the stage that it leaves next; it is gone from those after.
	next int
	// blocked is what the stages before see of it.
	blocked *Endpoint
}

// removeEndpoints takes the removals of endpoints in the batch, and those that are still to do, as far as
// they get, the first stage excepted. It returns the errors by stage.
func (d *Driver) removeEndpoints(ctx context.Context, b Batch) []error {
	for _, e := range b.Events {
		switch e := e.(type) {
		case *EndpointUpdate:
			delete(d.leaving, e.Key)
		case *EndpointRemove:
			d.leaving[e.Key] = &leaver{next: len(d.stages) - 1}
		}
	}
	errs := make([]error, len(d.stages))
	for i := len(d.stages) - 1; i > 0; i-- {
		var keys []policy.Key
		for k, l := range d.leaving {
			if l.next == i {
				keys = append(keys, k)
			}
		}
		slices.SortFunc(keys, policy.Key.Compare)
		errs[i] = d.stages[i].remove(ctx, keys)
		for _, k := range keys {
			if last := d.stages[i].stuck[k]; last != nil {
				d.leaving[k].blocked = last.blocked()
				d.block(k, i)
			} else {
				d.leaving[k].next--
			}
		}
	}
	return errs
}

// block has the stages between the first and the one that is stuck see the endpoint as blocked.
func (d *Driver) block(k policy.Key, stuck int) {
	for _, s := range d.stages[1:stuck] {
		if s.known[k] != nil {
			s.withheld[k] = d.leaving[k].blocked
		}
	}
}

// firstBatch returns the batch for the first stage: with the removal of endpoints that have left all
// others, and endpoints that could not leave yet blocked instead of removed.
func (d *Driver) firstBatch(b Batch) Batch {
	if len(d.leaving) == 0 {
		return b
	}
	var events []Event
	for _, e := range b.Events {
		if r, ok := e.(*EndpointRemove); !ok {
			events = append(events, e)
		} else if l := d.leaving[r.Key]; l.next > 0 {
			events = append(events, &EndpointUpdate{Key: r.Key, Endpoint: l.blocked})
		}
	}
	for k, l := range d.leaving {
		if l.next == 0 {
			delete(d.leaving, k)
			events = append(events, &EndpointRemove{Key: k})
		}
	}
	sortEvents(events)
	return Batch{Events: events}
}

// remove has the dataplane remove endpoints. Those that it could not remove are stuck afterwards.
func (s *stage) remove(ctx context.Context, keys []policy.Key) error {
	var part Batch
	again := false
	last := map[policy.Key]*Endpoint{}
	for _, k := range keys {
		delete(s.withheld, k)
		again = again || s.stuck[k] != nil
		last[k] = cmp.Or(s.known[k], s.stuck[k])
		if s.known[k] != nil {
			delete(s.known, k)
			part.Events = append(part.Events, &EndpointRemove{Key: k})
		}
	}
	if part.Empty() && !again {
		return nil
	}
	err := s.dp.Apply(ctx, part)
	s.failing = err != nil
	objects, general := ApplyErrors(err)
	for _, k := range keys {
		delete(s.stuck, k)
		if last[k] != nil && (general || objects[k] != nil) {
			s.stuck[k] = last[k]
		}
	}
	return err
}

// blocked returns the endpoint with no policy and no traffic.
func (e *Endpoint) blocked() *Endpoint {
	return &Endpoint{Interface: e.Interface, Addresses: e.Addresses, MAC: e.MAC, Down: true}
}
