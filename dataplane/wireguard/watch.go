// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
)

// minCheckInterval and maxCheckInterval limit the time between two calls of Apply that check
// whether traffic with a remote node has moved to another device.
const minCheckInterval, maxCheckInterval = 100 * time.Millisecond, 30 * time.Second

// Watch implements dataplane.Watcher. It restores devices, routes and rules that another process
// removes or changes. It reports each repaired route, rule and sysctl as a Drift, with the limit of
// Keeper.Watch. Keys and peers are different: the kernel sends no notifications about them, so only
// Resync repairs them.
//
// Watch makes the Driver call Apply in these cases:
//
//   - A device was recreated, and has no peers yet.
//   - Apply must check whether traffic with a remote node has moved to another device of this node.
//   - A step of a key rotation is due.
//   - A removal failed.
//   - The node's addresses move to other interfaces.
//   - A bridge gets or loses an address or its carrier.
//
// Watch calls drifted from several goroutines. It returns the errors of routes.Keeper.Watch and
// interfaces.Watch.
func (d *Dataplane) Watch(ctx context.Context, drifted func(dataplane.Drift)) error {
	report := func() {
		d.applyTimer.fired.Store(true)
		drifted(dataplane.Drift{Backend: backend, Object: "set of objects at fault", OnlyFaults: true})
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	all.Go(func() { d.applyTimer.run(inner, report) })
	all.Go(func() { cancel(d.interfaces.watch(inner, report)) })
	all.Go(func() {
		cancel(d.reconciler.keeper.Watch(inner, func(repaired []routes.Object, faultsChanged bool) {
			for _, o := range repaired {
				drifted(dataplane.Drift{Backend: backend, Object: routes.Describe(o), Foreign: true, Repaired: true})
			}
			if faultsChanged {
				report()
			}
		}))
	})
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return context.Cause(inner)
}

// nextStep returns the time of the next call of Apply, or zero if no call is necessary. The
// parameter movingSince is the time when the latest move of a remote node to another device began.
// It is zero if no move is unfinished. The interval between checks grows with the age of the move.
// It also grows with the number of remote nodes, because a check takes the kernel about 10 µs for
// each peer.
func (d *Dataplane) nextStep(movingSince time.Time) time.Time {
	at := d.rotationDue()
	if movingSince.IsZero() {
		return at
	}
	now := d.applyTimer.now()
	interval := min(max(now.Sub(movingSince)/10, minCheckInterval), maxCheckInterval)
	soon := now.Add(interval + time.Duration(len(d.remoteNodes))*100*time.Microsecond)
	if at.IsZero() || soon.Before(at) {
		return soon
	}
	return at
}

// applyTimer sends the time of the next call of Apply to the goroutine of Watch.
type applyTimer struct {
	now func() time.Time
	// due is the time in Unix nanoseconds; 0 is none.
	due atomic.Int64
	// fired is set when Watch causes a call of Apply. That call must program even if its batch
	// changes nothing.
	fired atomic.Bool
	// wake has a token if due has changed.
	wake chan struct{}
}

// schedule sets the time; zero is none.
func (t *applyTimer) schedule(at time.Time) {
	due := int64(0)
	if !at.IsZero() {
		due = at.UnixNano()
	}
	t.due.Store(due)
	select {
	case t.wake <- struct{}{}:
	default: // run has not received the last token yet
	}
}

// run calls report at each time that is due, until ctx is done.
func (t *applyTimer) run(ctx context.Context, report func()) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		timer.Stop()
		if at := t.due.Load(); at != 0 {
			timer.Reset(max(0, time.Unix(0, at).Sub(t.now())))
		}
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-timer.C:
			if t.due.Swap(0) != 0 {
				report()
			}
		}
	}
}
