// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Watcher is a Dataplane that detects when its objects in the kernel may differ from the desired
// state. They may differ because another process changed an object, or because interfaces or
// addresses of the machine changed. The Driver then calls Resync.
//
// A change may also concern only the list of objects that cannot be programmed. For example, if an
// interface is deleted, nothing has to be repaired, but its endpoint is down. Then the Driver calls
// Apply with an empty batch instead (see Drift.OnlyFaults).
type Watcher interface {
	// Watch calls drifted whenever a Resync is needed, or may be needed because Watch missed a
	// change. It runs until ctx is done, and then returns the error of ctx. It does not report the
	// dataplane's own changes. Watch runs concurrently with all other methods. A call of drifted
	// returns at once.
	//
	// Errors: the reason why it cannot watch. The Driver then calls Watch again after a while, and
	// also Resync.
	Watch(ctx context.Context, drifted func(Drift)) error
}

// Drift is a change in the kernel that a dataplane detected. Its texts are for people, and may be
// empty.
type Drift struct {
	// Backend that detected the change, as in "nft" or "routes".
	Backend string
	// Object that was changed, as in "table inet wayleave" or "interface cali1".
	Object string
	// Process that changed the object, as in "nft (4711)".
	Process string
	// Foreign is set if it is known that another process changed an object of this dataplane. It is
	// not set if the cause is unknown, or if the kernel itself changed the object, for example
	// because an interface was removed.
	Foreign bool
	// Repaired is set if the dataplane has already repaired the object, so no Resync is needed.
	Repaired bool
	// OnlyFaults is set if nothing has to be repaired, but the list of objects that are at fault,
	// down or pending has changed. An example of a cause is that an interface was deleted. The
	// Driver then calls Apply with an empty batch. The error of this call has the new list. The
	// Driver does not call Resync, and does not count this as a drift.
	OnlyFaults bool
}

// String returns "backend: object changed by process".
func (d Drift) String() string {
	by := ""
	if d.Process != "" {
		by = " by " + d.Process
	}
	return fmt.Sprintf("%s: %s changed%s", d.Backend, d.Object, by)
}

// watch runs a dataplane's Watch, and runs it again whenever it fails.
func (d *Driver) watch(ctx context.Context, backend int, w Watcher) {
	back := backoff{least: d.cfg.MinBackoff, most: d.cfg.MaxBackoff, next: d.cfg.MinBackoff}
	for {
		began := time.Now()
		err := w.Watch(ctx, func(drift Drift) { d.drifted(backend, drift) })
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > back.most {
			back.next = back.least // it worked for long
		}
		wait := jitter(back.next)
		back.grow()
		d.cfg.Logger.Warn("cannot watch the kernel", "dataplane", backend, "err", err, "retry_in", wait)
		select {
		case <-ctx.Done():
			return
		case <-d.life.quit:
			return
		case <-time.After(wait):
		}
		d.missed(backend)
	}
}

// drifted records a drift, and requests a resync of the backend if the dataplane has not repaired
// it.
func (d *Driver) drifted(backend int, drift Drift) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !drift.OnlyFaults {
		d.stats.Drifts++
	}
	if drift.Repaired {
		d.stats.Repairs++
	}
	if len(d.queue.drifts) < maxDrifts {
		d.queue.drifts = append(d.queue.drifts, drift)
	}
	disputed := false
	if drift.Foreign {
		disputed = d.disputes.record(drift, now, d.cfg.Logger)
	}
	level := slog.LevelInfo
	if disputed || drift.OnlyFaults {
		level = slog.LevelDebug // logged already, or logged with the faults
	}
	d.cfg.Logger.Log(context.Background(), level, "drift detected",
		"backend", drift.Backend, "object", drift.Object, "process", drift.Process, "repaired", drift.Repaired)
	switch {
	case drift.Repaired:
		d.wake.signal() // for the hook
	case drift.OnlyFaults:
		d.queue.faulted[backend] = true
		d.wake.signal()
	case !disputed:
		d.resyncBackendLocked(backend)
	case !d.disputes.waiting[backend]:
		d.resyncLaterLocked(backend)
	}
}

// disputePause is the least time between two resyncs because of an object that another process
// changes repeatedly. It is short, because until the resync the kernel may let packets pass that
// policy denies.
const disputePause = 100 * time.Millisecond

// resyncLaterLocked requests a resync of the backend after disputePause.
func (d *Driver) resyncLaterLocked(backend int) {
	d.disputes.waiting[backend] = true
	time.AfterFunc(disputePause, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.disputes.waiting, backend)
		d.resyncBackendLocked(backend)
	})
}

// missed requests a resync of the backend because it may have missed a change.
func (d *Driver) missed(backend int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resyncBackendLocked(backend)
}

func (d *Driver) resyncBackendLocked(backend int) {
	d.queue.drifted[backend] = true
	d.wake.signal()
}
