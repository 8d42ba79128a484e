// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"context"
	"errors"
	"sync"

	"github.com/wayleave/wayleave/dataplane"
)

var (
	_ dataplane.Dataplane = (*Faulty)(nil)
	_ dataplane.Watcher   = (*Faulty)(nil)
)

// Faulty wraps a dataplane and lets chosen calls fail, as a kernel would, and reports drift that a
// test makes up.
//
// A Faulty is safe for concurrent use if its inner dataplane and Fault are.
type Faulty struct {
	inner dataplane.Dataplane
	fault func(Call) error

	mu      sync.Mutex
	calls   map[string]int
	pending []dataplane.Batch

	watching    sync.Mutex // held only to look at watchers
	watchers    map[*watcher]struct{}
	undelivered []dataplane.Drift // of before Watch
}

// watcher is one call of Watch.
type watcher struct{ drifted func(dataplane.Drift) }

// Call is one call of a method of a Dataplane.
type Call struct {
	// Op is "apply", "resync" or "teardown".
	Op string
	// N counts the calls of this Op, from 1.
	N int
	// Batch that Apply was given.
	Batch dataplane.Batch
}

// NewFaulty returns a dataplane that calls fault before every call. If that returns nil, or an error
// that is about objects only (see dataplane.ApplyErrors), the inner dataplane gets the call, and
// both errors are returned; Teardown gets through without an error only. Any other error keeps the
// call from the inner dataplane: nothing changes; the batch is remembered, as the desired state
// must be, and goes in with the next call that gets through.
func NewFaulty(inner dataplane.Dataplane, fault func(Call) error) *Faulty {
	return &Faulty{inner: inner, fault: fault, calls: map[string]int{}, watchers: map[*watcher]struct{}{}}
}

// Apply applies what is remembered and the batch, or fails. Errors: the injected one joined with
// those of the inner dataplane.
func (f *Faulty) Apply(ctx context.Context, b dataplane.Batch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	injected := f.askLocked(Call{Op: "apply", Batch: b})
	f.pending = append(f.pending, b)
	if injected != nil && general(injected) {
		return injected
	}
	return errors.Join(injected, f.catchUpLocked(ctx))
}

// catchUpLocked applies what is remembered.
func (f *Faulty) catchUpLocked(ctx context.Context) error {
	var errs []error
	for _, p := range f.pending {
		errs = append(errs, f.inner.Apply(ctx, p))
	}
	f.pending = nil
	return errors.Join(errs...)
}

// Resync applies what is remembered and resyncs the inner dataplane, or fails. Errors: the injected
// one joined with those of the inner dataplane.
func (f *Faulty) Resync(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	injected := f.askLocked(Call{Op: "resync"})
	if injected != nil && general(injected) {
		return injected
	}
	return errors.Join(injected, f.catchUpLocked(ctx), f.inner.Resync(ctx))
}

// Teardown calls the inner dataplane or fails. Errors: the injected one, or the inner dataplane's.
func (f *Faulty) Teardown(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.askLocked(Call{Op: "teardown"}); err != nil {
		return err
	}
	f.pending = nil
	return f.inner.Teardown(ctx)
}

// Drift reports a drift to Watch, or to the next one if none runs.
func (f *Faulty) Drift(d dataplane.Drift) {
	f.watching.Lock()
	defer f.watching.Unlock()
	if len(f.watchers) == 0 {
		f.undelivered = append(f.undelivered, d)
	}
	for w := range f.watchers {
		w.drifted(d)
	}
}

// Watch reports each Drift, and those of the inner dataplane if it is a Watcher too.
//
// Errors: the context's, or the inner dataplane's.
func (f *Faulty) Watch(ctx context.Context, drifted func(dataplane.Drift)) error {
	w := &watcher{drifted}
	f.watching.Lock()
	f.watchers[w] = struct{}{}
	for _, d := range f.undelivered {
		drifted(d)
	}
	f.undelivered = nil
	f.watching.Unlock()
	defer func() {
		f.watching.Lock()
		defer f.watching.Unlock()
		delete(f.watchers, w)
	}()
	if inner, ok := f.inner.(dataplane.Watcher); ok {
		return inner.Watch(ctx, drifted)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *Faulty) askLocked(c Call) error {
	f.calls[c.Op]++
	c.N = f.calls[c.Op]
	return f.fault(c)
}

// general reports whether the state of all objects is unknown.
func general(err error) bool {
	_, all := dataplane.ApplyErrors(err)
	return all
}
