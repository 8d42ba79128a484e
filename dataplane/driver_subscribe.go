// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// EndpointChange is a change of the status of an endpoint.
type EndpointChange struct {
	// Key of the endpoint or host endpoint.
	Key policy.Key
	// Removed is true if the endpoint was removed, or is about to be. Status is then empty.
	Removed bool
	// Status of the endpoint now.
	Status EndpointStatus
}

// subscriber receives changes of endpoints. The driver's lock guards it.
type subscriber struct {
	changed map[policy.Key]struct{}
	wake    wakeup // is signalled when there are changes
}

// EndpointChanges returns a sequence that first yields the status of all endpoints, sorted by key.
// Then it yields each change of an endpoint's status, until the context is done or Run has
// returned. A slow receiver does not block the Driver: it gets only the latest change of each
// endpoint. There may be several callers at a time. Each loop over the sequence first yields all
// endpoints again.
func (d *Driver) EndpointChanges(ctx context.Context) iter.Seq[EndpointChange] {
	return func(yield func(EndpointChange) bool) {
		s := d.subscribe()
		defer d.unsubscribe(s)
		known := map[policy.Key]struct{}{}
		for {
			for _, change := range d.takeChanges(s) {
				_, before := known[change.Key]
				if change.Removed {
					if !before {
						continue // the receiver never got it
					}
					delete(known, change.Key)
				} else {
					known[change.Key] = struct{}{}
				}
				if ctx.Err() != nil || !yield(change) {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-d.life.stopped:
				return
			case <-s.wake:
			}
		}
	}
}

// subscribe returns a subscriber with all endpoints marked as changed.
func (d *Driver) subscribe() *subscriber {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &subscriber{changed: map[policy.Key]struct{}{}, wake: newWakeup()}
	for k := range d.status.endpoints {
		s.changed[k] = struct{}{}
	}
	d.status.subscribers[s] = struct{}{}
	return s
}

func (d *Driver) unsubscribe(s *subscriber) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.status.subscribers, s)
}

// takeChanges returns the changes since the last call.
func (d *Driver) takeChanges(s *subscriber) []EndpointChange {
	d.mu.Lock()
	defer d.mu.Unlock()
	var changes []EndpointChange
	for _, k := range slices.SortedFunc(maps.Keys(s.changed), policy.Key.Compare) {
		change := EndpointChange{Key: k, Removed: true}
		if ep := d.status.endpoints[k]; ep != nil {
			change = EndpointChange{Key: k, Status: ep.EndpointStatus}
		}
		changes = append(changes, change)
	}
	clear(s.changed)
	return changes
}

// markChanged marks the status of an endpoint as changed for all subscribers.
func (p *progress) markChanged(k policy.Key) {
	for s := range p.subscribers {
		s.changed[k] = struct{}{}
		s.wake.signal()
	}
}
