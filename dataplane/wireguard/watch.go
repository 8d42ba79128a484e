// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/wayleave/wayleave/dataplane"
)

// minCheckInterval and maxCheckInterval limit how often Apply checks whether a move of a peer to another device is
// complete.
const minCheckInterval, maxCheckInterval = 100 * time.Millisecond, 30 * time.Second

// Watch implements dataplane.Watcher. It restores devices, routes and rules that another process removes or
// changes, as routes.Keeper.Watch does. It causes a call of Apply after a device is created again, for its
// peers, while traffic moves to another device, when the next step of a rotation is due, and after a removal
// that failed. The kernel sends no notifications about keys and peers: Resync repairs those.
func (d *Dataplane) Watch(ctx context.Context, drifted func(dataplane.Drift)) error {
	report := func() {
		d.reminder.fired.Store(true)
		drifted(dataplane.Drift{Backend: backend, Object: "set of objects at fault", OnlyFaults: true})
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.reminder.run(ctx, report)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	return d.kept.keeper.Watch(ctx, report)
}

// nextStep returns when Apply is to be called next; zero if it need not be. movingSince is when the latest move of a
// peer to another device began; zero if no move is unfinished. The longer the move takes, and the more peers there
// are, the longer is the interval: a check takes the kernel some 10 us for each peer.
func (d *Dataplane) nextStep(movingSince time.Time) time.Time {
	at := d.rotationDue()
	if movingSince.IsZero() {
		return at
	}
	now := d.reminder.now()
	interval := min(max(now.Sub(movingSince)/10, minCheckInterval), maxCheckInterval)
	soon := now.Add(interval + time.Duration(len(d.peers))*100*time.Microsecond)
	if at.IsZero() || soon.Before(at) {
		return soon
	}
	return at
}

// reminder sends the time of the next call of Apply to the goroutine of Watch.
type reminder struct {
	now func() time.Time
	// due is the time in Unix nanoseconds; 0 is none.
	due atomic.Int64
	// fired is set when Watch causes a call of Apply: its batch may have no relevant change.
	fired atomic.Bool
	wake  chan struct{}
}

// schedule sets the time; zero is none.
func (r *reminder) schedule(at time.Time) {
	due := int64(0)
	if !at.IsZero() {
		due = at.UnixNano()
	}
	r.due.Store(due)
	select {
	case r.wake <- struct{}{}:
	default: // run has not received the last one yet
	}
}

// run calls report at each time that is due, until ctx is done.
func (r *reminder) run(ctx context.Context, report func()) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		timer.Stop()
		if at := r.due.Load(); at != 0 {
			timer.Reset(max(0, time.Unix(0, at).Sub(r.now())))
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
			if r.due.Swap(0) != 0 {
				report()
			}
		}
	}
}
