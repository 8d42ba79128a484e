// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"fmt"
	"time"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// How long Watch waits before it tries again what failed: from the first to the last, twice as long
// each time.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Watch keeps the kernel as it was wanted at the last Apply: what somebody takes away is put back,
// an interface that comes, or comes again, gets what belongs to it, and what failed is tried again.
// Before the first Apply it touches nothing. It calls changed whenever other objects than before
// are at fault, after Apply or the last call; Apply then says which. changed is called beside, one
// call at a time and one for all that happened during the last: it may take its time. It may be
// nil.
//
// It returns when ctx is done, with its error, or when the kernel cannot be listened to. It may run
// beside all other methods, once.
func (k *Keeper) Watch(ctx context.Context, changed func()) error {
	notify, stop := notifier(changed)
	defer stop()
	return k.watch(ctx, func(faultsChanged bool) {
		k.takeRepairs() // this Watch does not report them
		if faultsChanged {
			notify()
		}
	})
}

// watch implements Watch. It calls notify when the set of objects at fault changes (faultsChanged),
// and when takeRepairs has objects. notify must not block.
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
		woken, err := k.rest(ctx, wait, failing)
		if err != nil {
			return err
		}
		if woken {
			continue
		}
		wait = min(2*wait, lastRetry)
	}
}

// notifier returns a function that has changed called in another goroutine and does not block, and
// one that waits for the end of the last call.
func notifier(changed func()) (notify, stop func()) {
	if changed == nil {
		return func() {}, func() {}
	}
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

// repair repairs what is known to be wrong. faultsChanged means that other objects than before are
// at fault, repaired that an object changed by another process was repaired.
func (k *Keeper) repair(ctx context.Context) (faultsChanged, repaired, failing bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.connect(); err != nil {
		return false, false, false, err
	}
	if !k.applied {
		return false, false, false, k.poll() // nothing is kept yet, but what is announced must not pile up
	}
	err = k.reconcile(ctx)
	text := fmt.Sprint(err)
	faultsChanged = text != k.lastReported
	k.lastReported = text
	return faultsChanged, len(k.repairs) > 0, err != nil, nil
}

// rest waits until the kernel announces something, or until it is time to look again: woken is
// false then, if that is because something failed.
func (k *Keeper) rest(ctx context.Context, retry time.Duration, failing bool) (woken bool, err error) {
	monitor, again := k.listening()
	if monitor == nil { // the connection was lost or closed: it is made anew
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
	if now, _ := k.listening(); now != monitor {
		return true, nil // it was closed, and perhaps made anew
	}
	return false, fmt.Errorf("routes: %w", err)
}

// listening returns what to wait for.
func (k *Keeper) listening() (*rtnl.Monitor, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.monitor, k.again
}
