// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// EndpointChange says that the status of an endpoint is another.
type EndpointChange struct {
	// Key of the endpoint or host endpoint.
	Key policy.Key
	// Removed says that it was removed, or is about to be: it has no Status any more.
	Removed bool
	// Status of the endpoint now.
	Status EndpointStatus
}

// subscriber is somebody who is told of changes. It belongs to the driver's lock.
type subscriber struct {
	news map[policy.Key]struct{}
	wake chan struct{} // holds a token while there are news
}

// EndpointChanges returns the status of all endpoints, sorted by key, and then every change of one,
// until the context is done or Run has returned. To whoever is slower than the changes the latest
// of each endpoint is told; nobody is held up. It may be called, and each result ranged over, any
// number of times.
func (d *Driver) EndpointChanges(ctx context.Context) iter.Seq[EndpointChange] {
	return func(yield func(EndpointChange) bool) {
		s := d.subscribe()
		defer d.unsubscribe(s)
		known := map[policy.Key]struct{}{}
		for {
			for _, change := range d.news(s) {
				_, before := known[change.Key]
				if change.Removed {
					if !before {
						continue // came and went unseen
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
			case <-d.stopped:
				return
			case <-s.wake:
			}
		}
	}
}

// subscribe returns a subscriber to whom all endpoints are news.
func (d *Driver) subscribe() *subscriber {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &subscriber{news: map[policy.Key]struct{}{}, wake: make(chan struct{}, 1)}
	for k := range d.status.endpoints {
		s.news[k] = struct{}{}
	}
	d.status.subscribers[s] = struct{}{}
	return s
}

func (d *Driver) unsubscribe(s *subscriber) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.status.subscribers, s)
}

// news returns what the subscriber has not been told, and regards it as told.
func (d *Driver) news(s *subscriber) []EndpointChange {
	d.mu.Lock()
	defer d.mu.Unlock()
	var changes []EndpointChange
	for _, k := range slices.SortedFunc(maps.Keys(s.news), policy.Key.Compare) {
		change := EndpointChange{Key: k, Removed: true}
		if ep := d.status.endpoints[k]; ep != nil {
			change = EndpointChange{Key: k, Status: ep.EndpointStatus}
		}
		changes = append(changes, change)
	}
	clear(s.news)
	return changes
}

// tell notes that an endpoint's status is news to all subscribers.
func (p *progress) tell(k policy.Key) {
	for s := range p.subscribers {
		s.news[k] = struct{}{}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}
