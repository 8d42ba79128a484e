// SPDX-License-Identifier: Apache-2.0

package felix

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

func statusKey() policy.Key { return policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "a"} }

// with applies an endpoint, and gone its removal.
func (s statuses) with(e dataplane.Endpoint) {
	s.apply(dataplane.Batch{Events: []dataplane.Event{&dataplane.EndpointUpdate{Key: statusKey(), Endpoint: &e}}})
}

func (s statuses) gone() {
	s.apply(dataplane.Batch{Events: []dataplane.Event{&dataplane.EndpointRemove{Key: statusKey()}}})
}

// programmed reports whether the endpoint is not at fault, and whether it is pending.
func (s statuses) programmed(wait bool) (ok, pending bool) {
	errs := s.faults(wait)
	if len(errs) == 0 {
		return true, false
	}
	return false, errs[0].(*dataplane.ApplyError).Pending
}

func requirePending(t *testing.T, s statuses) {
	t.Helper()
	_, pending := s.programmed(true)
	require.True(t, pending)
}

func requireProgrammed(t *testing.T, s statuses) {
	t.Helper()
	ok, _ := s.programmed(true)
	require.True(t, ok)
}

// A late status of a removed endpoint is not used for a new endpoint with its key.
func TestStatusOfRemovedEndpoint(t *testing.T) {
	s := newStatuses(time.Hour)
	s.with(dataplane.Endpoint{})
	s.gone()
	s.with(dataplane.Endpoint{})
	s.report(statusKey(), "up")
	requirePending(t, s)
	s.report(statusKey(), "error")
	ok, _ := s.programmed(false)
	require.True(t, ok, "an error of the old endpoint")
	s.report(statusKey(), "")
	requirePending(t, s)
	s.report(statusKey(), "up")
	requireProgrammed(t, s)

	// Each removal is waited for.
	for range 2 {
		s.gone()
		s.with(dataplane.Endpoint{})
	}
	s.report(statusKey(), "")
	s.report(statusKey(), "up")
	requirePending(t, s)
	s.report(statusKey(), "")
	requirePending(t, s)
	s.report(statusKey(), "up")
	requireProgrammed(t, s)

	// The next driver never had the old endpoint.
	s.gone()
	s.with(dataplane.Endpoint{})
	s.reset()
	s.report(statusKey(), "up")
	requireProgrammed(t, s)
}

// If a driver does not report removals, its last status is used after the timeout.
func TestRemovalThatIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Minute
		s := newStatuses(timeout)
		var drifts atomic.Int64
		s.watchers[&watcher{func(dataplane.Drift) { drifts.Add(1) }}] = struct{}{}
		s.with(dataplane.Endpoint{})
		s.gone()
		time.Sleep(timeout / 2)
		s.with(dataplane.Endpoint{})
		s.gone() // the timeout begins again
		s.with(dataplane.Endpoint{})
		s.report(statusKey(), "error")
		s.report(statusKey(), "up")
		time.Sleep(timeout - time.Second)
		requirePending(t, s)
		require.Zero(t, drifts.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		requireProgrammed(t, s)
		require.EqualValues(t, 1, drifts.Load())
		require.Empty(t, s.removed)

		s.gone()
		time.Sleep(timeout)
		synctest.Wait()
		require.Empty(t, s.removed)
		require.Empty(t, s.endpoints)
		require.EqualValues(t, 1, drifts.Load())
	})
}

// hookedLock calls unlocked after the next Unlock.
type hookedLock struct {
	sync.Locker
	unlocked func()
}

func (l *hookedLock) Unlock() {
	hook := l.unlocked
	l.unlocked = nil
	l.Locker.Unlock()
	if hook != nil {
		hook()
	}
}

// A status that the driver reports right after the timeout, or the start of another driver, is
// newer than the status that was held.
func TestStatusAfterRemovalTimeout(t *testing.T) {
	for _, restart := range []bool{false, true} {
		s := newStatuses(time.Hour)
		lock := &hookedLock{Locker: s.Locker}
		s.Locker = lock
		s.with(dataplane.Endpoint{})
		s.removed[statusKey()] = removal{count: 1, held: "error"}
		lock.unlocked = func() {
			if restart {
				s.reset()
			} else {
				s.report(statusKey(), "up")
			}
		}
		s.expire(statusKey())
		if restart {
			requirePending(t, s)
		} else {
			requireProgrammed(t, s)
		}
	}
}

// An endpoint that must be down is pending until the driver reports that, if statuses are waited
// for.
func TestStatusOfDownEndpoint(t *testing.T) {
	s := newStatuses(time.Hour)
	s.with(dataplane.Endpoint{})
	s.report(statusKey(), "up")
	s.with(dataplane.Endpoint{Down: true})
	requirePending(t, s)
	ok, _ := s.programmed(false)
	require.True(t, ok)
	s.report(statusKey(), "down")
	requireProgrammed(t, s)
	s.with(dataplane.Endpoint{})
	requirePending(t, s)
	s.report(statusKey(), "up")
	requireProgrammed(t, s)
}
