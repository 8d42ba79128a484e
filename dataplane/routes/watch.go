// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// The back-off of Watch after failures: from firstRetry, doubled each time, to lastRetry.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Watch keeps the kernel in the desired state of the last Apply. It restores objects that another
// process removes or changes. When an interface appears or returns, it adds the interface's
// objects. It retries all changes that have failed. Before the first Apply it changes nothing.
//
// Watch calls report with the objects that it has repaired after a change by another process. In
// one call, it reports at most 100 rules and 100 other objects, and leaves out the rest. It does
// not report repairs of devices.
//
// Watch also calls report when the set of objects at fault changes, or after it has recreated a
// device: then faultsChanged is true. To get the new set, call Apply. The function report runs in
// another goroutine and may block. Calls do not overlap: if there are changes during a call, one
// more call follows. The function may be nil.
//
// Watch returns the error of ctx when ctx is done, or another error when notifications cannot be
// received. It may run beside all other methods, but only once at a time.
func (k *Keeper) Watch(ctx context.Context, report func(repaired []Object, faultsChanged bool)) error {
	var faults atomic.Bool
	notify, stop := notifier(func() {
		repaired, faultsChanged := k.takeRepairs(), faults.Swap(false)
		if report != nil && (faultsChanged || len(repaired) > 0) {
			report(repaired, faultsChanged)
		}
	})
	defer stop()
	return k.watch(ctx, func(faultsChanged bool) {
		if faultsChanged {
			faults.Store(true)
		}
		notify()
	})
}

// watch implements Watch. It calls notify when the set of objects at fault changes (then
// faultsChanged is true), and when takeRepairs has objects to return. The function notify must not
// block.
func (k *Keeper) watch(ctx context.Context, notify func(faultsChanged bool)) error {
	wait := firstRetry
	for {
		faultsChanged, repaired, failing, err := k.repair(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if faultsChanged {
			wait = firstRetry
		}
		if faultsChanged || repaired {
			notify(faultsChanged)
		}
		if k.disputed() {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(disputePause):
			}
		}
		woken, err := k.waitForWork(ctx, wait, failing)
		if err != nil {
			return err
		}
		if woken {
			continue
		}
		wait = min(2*wait, lastRetry)
	}
}

// notifier returns two functions. notify makes another goroutine call changed, and does not block.
// stop waits for the end of the last call.
func notifier(changed func()) (notify, stop func()) {
	pending, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for range pending {
			changed()
		}
	}()
	notify = func() {
		select {
		case pending <- struct{}{}:
		default: // a call is pending already
		}
	}
	return notify, func() {
		close(pending)
		<-ended
	}
}

// repair makes one pass. The result faultsChanged is true if the set of objects at fault changed,
// or a desired device was recreated. The result repaired is true if another process had changed an
// object, and that object was repaired.
func (k *Keeper) repair(ctx context.Context) (faultsChanged, repaired, failing bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.view.connect(); err != nil {
		return false, false, false, err
	}
	if !k.applied {
		return false, false, false, k.view.poll() // receives notifications only, so that they do not fill the socket
	}
	before := k.view.deviceIndexes()
	err = k.reconcile(ctx)
	text := fmt.Sprint(err)
	faultsChanged = text != k.lastReported || !maps.Equal(before, k.view.deviceIndexes())
	k.lastReported = text
	return faultsChanged, k.repairs.any(), err != nil && k.last.retries(), nil
}

// waitForWork waits for a notification of the kernel, or for the time of the next pass. The result
// woken is true after a notification, and false if the time has come.
func (k *Keeper) waitForWork(ctx context.Context, retry time.Duration, failing bool) (woken bool, err error) {
	monitor, again := k.waitState()
	if monitor == nil { // the connection was lost or closed: the next pass connects
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(retry):
			return false, nil
		}
	}
	inner, cancel := ctx, context.CancelFunc(func() {})
	until := again
	if soon := time.Now().Add(retry); failing && (until.IsZero() || soon.Before(until)) {
		until = soon
	}
	if !until.IsZero() {
		inner, cancel = context.WithDeadline(ctx, until)
	}
	defer cancel()
	err = monitor.Wait(inner)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		return true, nil
	case inner.Err() != nil:
		return false, nil
	}
	if now, _ := k.waitState(); now != monitor {
		return true, nil // the monitor was closed, and perhaps replaced
	}
	return false, fmt.Errorf("routes: %w", err)
}

// waitState returns the monitor to wait for, and the time of the next pass.
func (k *Keeper) waitState() (*rtnl.Monitor, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.view.sockets.monitor, k.last.wakeAt
}

// takeRepairs returns the objects that were repaired since the last call.
func (k *Keeper) takeRepairs() []Object {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.repairs.take()
}

// disputed reports whether another process changes objects of ours repeatedly.
func (k *Keeper) disputed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.repairs.disputes.Any(k.view.now())
}
