// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"fmt"
	"time"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// How long Watch waits before it tries again what failed: from the first to the last, twice as long each time.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Watch keeps the kernel as it was wanted at the last Apply: what somebody takes away is put back, an interface that comes, or
// comes again, gets what belongs to it, and what failed is tried again. Before the first Apply it touches nothing. It calls changed
// whenever other objects than before are at fault, after Apply or the last call; Apply then says which. changed is called beside, one
// call at a time and one for all that happened during the last: it may take its time. It may be nil.
//
// It returns when ctx is done, with its error, or when the kernel cannot be listened to. It may run beside all other methods, once.
func (k *Keeper) Watch(ctx context.Context, changed func()) error {
	tell, told := teller(changed)
	defer told()
	return k.watch(ctx, tell)
}

// watch is Watch; tell must not wait.
func (k *Keeper) watch(ctx context.Context, tell func()) error {
	wait := firstRetry
	for {
		news, failing, err := k.mend(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if news {
			wait = firstRetry
			tell()
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

// teller returns a function that has changed called, which waits for nothing, and one that waits until the last call is over.
func teller(changed func()) (tell, told func()) {
	if changed == nil {
		return func() {}, func() {}
	}
	news, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for range news {
			changed()
		}
	}()
	tell = func() {
		select {
		case news <- struct{}{}:
		default: // is to be called anyway
		}
	}
	return tell, func() {
		close(news)
		<-ended
	}
}

// mend repairs what is known to be wrong. news means that other objects than before are at fault.
func (k *Keeper) mend(ctx context.Context) (news, failing bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.connect(); err != nil {
		return false, false, err
	}
	if !k.applied {
		return false, false, k.poll() // nothing is kept yet, but what is announced must not pile up
	}
	err = k.reconcile(ctx)
	said := k.complaint(err)
	news = said != k.said
	k.said = said
	return news, err != nil, nil
}

// complaint is what an error says; whoever heard the same has heard it.
func (k *Keeper) complaint(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// rest waits until the kernel announces something, or until it is time to look again: woken is false then, if that is because something failed.
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
