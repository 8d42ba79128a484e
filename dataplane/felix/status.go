// SPDX-License-Identifier: Apache-2.0

package felix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// The causes of endpoints that are pending.
var (
	errNoStatus = errors.New("the driver has not reported its status")
	errNotDown  = errors.New("the driver has not reported that it is down")
)

// statuses has the status of each endpoint that the driver last reported.
type statuses struct {
	sync.Locker
	endpoints map[policy.Key]status
	// removed has the endpoints that were removed, until the driver has reported the removal.
	removed  map[policy.Key]removal
	watchers map[*watcher]struct{}
	// removalTimeout is how long the driver may take to report a removal.
	removalTimeout time.Duration
}

// status is the status of an endpoint. An update of the endpoint keeps the reported status, because
// a driver reports only changes.
type status struct {
	// text is the last report: "up", "down" or "error"; empty if there was none.
	text string
	// down is set if the endpoint must be down.
	down bool
}

// removal is an endpoint that was removed. A new endpoint may have the same key. Until the driver
// has reported the removal, a status for this key may be that of the removed endpoint.
type removal struct {
	// count is the number of removals that the driver has not reported.
	count int
	// until is the end of the wait for these reports.
	until time.Time
	// held is the last status that the driver has reported during the wait. It is used if the wait
	// times out.
	held string
}

// watcher is a call of Watch.
type watcher struct{ drifted func(dataplane.Drift) }

func newStatuses(removalTimeout time.Duration) statuses {
	return statuses{
		&sync.Mutex{}, map[policy.Key]status{}, map[policy.Key]removal{}, map[*watcher]struct{}{}, removalTimeout,
	}
}

// apply adds and removes the endpoints of a batch.
func (s statuses) apply(b dataplane.Batch) {
	s.Lock()
	defer s.Unlock()
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.EndpointUpdate:
			st := s.endpoints[e.Key]
			if st.down && !e.Endpoint.Down && st.text == "down" {
				st.text = "" // it was to be down
			}
			s.endpoints[e.Key] = status{st.text, e.Endpoint.Down}
		case *dataplane.HostEndpointUpdate:
			s.endpoints[e.Key] = status{s.endpoints[e.Key].text, false}
		case *dataplane.EndpointRemove:
			s.removeLocked(e.Key)
		case *dataplane.HostEndpointRemove:
			s.removeLocked(e.Key)
		}
	}
}

func (s statuses) removeLocked(key policy.Key) {
	if _, ok := s.endpoints[key]; !ok {
		return
	}
	delete(s.endpoints, key)
	s.removed[key] = removal{count: s.removed[key].count + 1, until: time.Now().Add(s.removalTimeout)}
	time.AfterFunc(s.removalTimeout, func() { s.expire(key) })
}

// expire ends the wait for the reports of the removals of an endpoint, and records the status that
// was held. Both happen under one lock: a report in between would be newer than the status that was
// held.
func (s statuses) expire(key policy.Key) {
	s.Lock()
	r, waits := s.removed[key]
	expired := waits && !time.Now().Before(r.until)
	if expired {
		delete(s.removed, key)
	}
	changed := expired && r.held != "" && s.recordLocked(key, r.held)
	s.Unlock()
	if changed {
		s.notify()
	}
}

// recordLocked records the status of the endpoint with this key, if there is one. It reports
// whether the status changes.
func (s statuses) recordLocked(key policy.Key, text string) bool {
	st, ok := s.endpoints[key]
	if !ok || st.text == text {
		return false
	}
	s.endpoints[key] = status{text, st.down}
	return true
}

// reset deletes all reported statuses, because another driver starts.
func (s statuses) reset() {
	s.Lock()
	defer s.Unlock()
	clear(s.removed)
	for key, st := range s.endpoints {
		s.endpoints[key] = status{"", st.down}
	}
}

// clear removes all endpoints.
func (s statuses) clear() {
	s.Lock()
	defer s.Unlock()
	clear(s.endpoints)
	clear(s.removed)
}

// report records the status of an endpoint. An empty text reports its removal. While the driver has
// not reported the removal of an earlier endpoint with this key, the status is held.
func (s statuses) report(key policy.Key, text string) {
	s.Lock()
	r, waits := s.removed[key]
	changed := false
	switch {
	case !waits:
		changed = s.recordLocked(key, text)
	case text != "":
		r.held = text
		s.removed[key] = r
	case r.count > 1:
		s.removed[key] = removal{count: r.count - 1, until: r.until}
	default:
		delete(s.removed, key)
	}
	s.Unlock()
	if changed {
		s.notify()
	}
}

// notify reports to the watchers that the set of objects at fault or pending may have changed.
func (s statuses) notify() {
	s.Lock()
	watchers := slices.Collect(maps.Keys(s.watchers))
	s.Unlock()
	for _, w := range watchers {
		w.drifted(dataplane.Drift{Backend: backend, Object: "endpoints", OnlyFaults: true})
	}
}

// faults returns an error for each endpoint that is not programmed, sorted by key. An endpoint may
// have no status, or must be down but is up. With wait, such an endpoint is pending. Without wait,
// it counts as programmed.
func (s statuses) faults(wait bool) (errs []error) {
	s.Lock()
	defer s.Unlock()
	var faults []*dataplane.ApplyError
	for key, st := range s.endpoints {
		fault := &dataplane.ApplyError{Backend: backend, Op: "program", Object: key}
		switch {
		case st.text == "down" && st.down, st.text == "up" && !st.down, (st.text == "" || st.text == "up") && !wait:
			continue
		case st.text == "":
			fault.Pending, fault.Err = true, errNoStatus
		case st.text == "up":
			fault.Pending, fault.Err = true, errNotDown
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

// Watch implements dataplane.Watcher. It calls drifted once at its start. After that, it calls
// drifted whenever the driver reports a new status of an endpoint, and when the driver ends. Calls
// of drifted may come from several goroutines. Errors: the error of ctx.
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
