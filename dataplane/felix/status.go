// SPDX-License-Identifier: Apache-2.0

package felix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// errNoStatus is the cause of an endpoint that is pending.
var errNoStatus = errors.New("the driver has not reported its status")

// statuses has what the driver last reported about each endpoint.
type statuses struct {
	*sync.Mutex
	endpoints map[policy.Key]status
	watchers  map[*watcher]struct{}
}

// status is what the driver last reported about an endpoint. A driver reports changes only: an update of the endpoint
// leaves it as it is.
type status struct {
	// text is "up", "down" or "error", or empty if nothing was reported.
	text string
	// down is set if the endpoint must be down.
	down bool
}

// watcher is a call of Watch.
type watcher struct{ drifted func(dataplane.Drift) }

func newStatuses() statuses {
	return statuses{&sync.Mutex{}, map[policy.Key]status{}, map[*watcher]struct{}{}}
}

// apply adds and removes the endpoints of a batch.
func (s statuses) apply(b dataplane.Batch) {
	s.Lock()
	defer s.Unlock()
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.EndpointUpdate:
			s.endpoints[e.Key] = status{s.endpoints[e.Key].text, e.Endpoint.Down}
		case *dataplane.HostEndpointUpdate:
			s.endpoints[e.Key] = status{s.endpoints[e.Key].text, false}
		case *dataplane.EndpointRemove:
			delete(s.endpoints, e.Key)
		case *dataplane.HostEndpointRemove:
			delete(s.endpoints, e.Key)
		}
	}
}

// reset forgets what was reported: another driver starts.
func (s statuses) reset() {
	s.Lock()
	defer s.Unlock()
	for key, st := range s.endpoints {
		s.endpoints[key] = status{"", st.down}
	}
}

// clear forgets the endpoints.
func (s statuses) clear() {
	s.Lock()
	defer s.Unlock()
	clear(s.endpoints)
}

// report records what the driver reports about an endpoint, if there is one.
func (s statuses) report(key policy.Key, text string) {
	s.Lock()
	st, ok := s.endpoints[key]
	changed := ok && st.text != text
	if changed {
		s.endpoints[key] = status{text, st.down}
	}
	s.Unlock()
	if changed {
		s.notify()
	}
}

// notify tells watchers that the objects at fault or pending have changed.
func (s statuses) notify() {
	s.Lock()
	watchers := slices.Collect(maps.Keys(s.watchers))
	s.Unlock()
	for _, w := range watchers {
		w.drifted(dataplane.Drift{Backend: backend, Object: "endpoints", OnlyFaults: true})
	}
}

// faults returns an error for each endpoint that is not programmed, sorted by key. One without a status is only if wait
// is set.
func (s statuses) faults(wait bool) (errs []error) {
	s.Lock()
	defer s.Unlock()
	var faults []*dataplane.ApplyError
	for key, st := range s.endpoints {
		fault := &dataplane.ApplyError{Backend: backend, Op: "program", Object: key}
		switch {
		case st.text == "up", st.text == "down" && st.down, st.text == "" && !wait:
			continue
		case st.text == "":
			fault.Pending, fault.Err = true, errNoStatus
		default:
			fault.Down = st.text == "down" && key.Kind == policy.KindWorkloadEndpoint
			fault.Err = fmt.Errorf("the driver reports the status %q", st.text)
		}
		faults = append(faults, fault)
	}
	slices.SortFunc(faults, func(a, b *dataplane.ApplyError) int { return a.Object.Compare(b.Object) })
	for _, fault := range faults {
		errs = append(errs, fault)
	}
	return errs
}

// Watch implements dataplane.Watcher. It reports that the driver has changed the status of an endpoint, or has ended.
// Errors: that of ctx.
func (d *Dataplane) Watch(ctx context.Context, drifted func(dataplane.Drift)) error {
	s, w := d.statuses, &watcher{drifted}
	s.Lock()
	s.watchers[w] = struct{}{}
	s.Unlock()
	drifted(dataplane.Drift{Backend: backend, Object: "driver", OnlyFaults: true})
	<-ctx.Done()
	s.Lock()
	defer s.Unlock()
	delete(s.watchers, w)
	return ctx.Err()
}
