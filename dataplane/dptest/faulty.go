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

// Faulty wraps a dataplane, to simulate faults of the kernel. The test chooses which calls fail. It
// can also report drifts (changes by other processes) that did not happen.
//
// A Faulty is safe for concurrent use if both arguments of NewFaulty are safe for concurrent use.
type Faulty struct {
	inner dataplane.Dataplane
	fault func(Call) error

	mu      sync.Mutex
	calls   map[string]int
	pending []dataplane.Batch

	watching    sync.Mutex // held only to look at watchers
	watchers    map[*watcher]struct{}
	undelivered []dataplane.Drift // recorded before Watch was called
}

// watcher is one call of Watch.
type watcher struct{ drifted func(dataplane.Drift) }

// Call is one call of a method of a Dataplane.
type Call struct {
	// Op is "apply", "resync" or "teardown".
	Op string
	// N counts the calls of this Op, from 1.
	N int
	// Batch is the batch of a call of Apply.
	Batch dataplane.Batch
}

// NewFaulty returns a dataplane that wraps inner. Before each call of Apply, Resync or Teardown, it
// calls the function fault. The error that this function returns decides what happens to the call:
//
//   - nil, or only errors that name an object (see dataplane.ApplyErrors): the inner dataplane gets
//     the call. The result joins this error and the error of the inner dataplane.
//   - Any other error blocks the call: the inner dataplane does not get it. If Apply is blocked,
//     the Faulty stores the batch. It gives the batch to the inner dataplane with the next Apply or
//     Resync that is not blocked.
//
// Any error blocks Teardown. A Teardown that is not blocked discards the stored batches.
func NewFaulty(inner dataplane.Dataplane, fault func(Call) error) *Faulty {
	return &Faulty{inner: inner, fault: fault, calls: map[string]int{}, watchers: map[*watcher]struct{}{}}
}

// Apply first calls the function that was passed to NewFaulty. If this function returns an error
// that blocks the call (see NewFaulty), Apply only stores the batch and returns the error.
// Otherwise Apply gives the inner dataplane the stored batches, and then this batch. It returns a
// join of the function's error and the errors of the inner dataplane.
func (f *Faulty) Apply(ctx context.Context, b dataplane.Batch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	injected := f.faultLocked(Call{Op: "apply", Batch: b})
	f.pending = append(f.pending, b)
	if injected != nil && general(injected) {
		return injected
	}
	return errors.Join(injected, f.catchUpLocked(ctx))
}

// catchUpLocked gives the inner dataplane the stored batches.
func (f *Faulty) catchUpLocked(ctx context.Context) error {
	var errs []error
	for _, p := range f.pending {
		errs = append(errs, f.inner.Apply(ctx, p))
	}
	f.pending = nil
	return errors.Join(errs...)
}

// Resync first calls the function that was passed to NewFaulty. If this function returns an error
// that blocks the call (see NewFaulty), Resync returns the error and does nothing else. Otherwise
// Resync gives the inner dataplane the stored batches, and then calls Resync of the inner
// dataplane. It returns a join of the function's error and the errors of the inner dataplane.
func (f *Faulty) Resync(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	injected := f.faultLocked(Call{Op: "resync"})
	if injected != nil && general(injected) {
		return injected
	}
	return errors.Join(injected, f.catchUpLocked(ctx), f.inner.Resync(ctx))
}

// Teardown first calls the function that was passed to NewFaulty. If this function returns an
// error, Teardown returns the error and does nothing else. Otherwise Teardown discards the stored
// batches, calls Teardown of the inner dataplane, and returns its error.
func (f *Faulty) Teardown(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.faultLocked(Call{Op: "teardown"}); err != nil {
		return err
	}
	f.pending = nil
	return f.inner.Teardown(ctx)
}

// Drift makes each running call of Watch report the drift d. If none runs, the next call of Watch
// reports it.
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

// Watch reports each drift for which the test calls Faulty.Drift. If the inner dataplane is a
// Watcher, it also reports the drifts of the inner dataplane.
//
// Errors: the context's error, or the error of the inner dataplane.
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

func (f *Faulty) faultLocked(c Call) error {
	f.calls[c.Op]++
	c.N = f.calls[c.Op]
	return f.fault(c)
}

// general reports whether the state of all objects is unknown.
func general(err error) bool {
	_, all := dataplane.ApplyErrors(err)
	return all
}
