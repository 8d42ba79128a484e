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

// Faulty wraps a dataplane. It makes calls fail that a test chooses, as a kernel would, and reports
// drift that a test invents.
//
// A Faulty is safe for concurrent use if its inner dataplane and the function fault are.
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

// NewFaulty returns a dataplane that calls fault before each call of a method. The result of fault
// decides what happens to the call:
//
//   - After nil, or an error that is about objects only (see dataplane.ApplyErrors), the inner
//     dataplane gets the call. The result joins the two errors. Exception: Teardown reaches the
//     inner dataplane only after nil.
//   - After any other error, the inner dataplane does not get the call. A batch is kept, because
//     Apply must add it to the desired state in any case. The inner dataplane gets the batch before
//     the next call that reaches the inner dataplane.
func NewFaulty(inner dataplane.Dataplane, fault func(Call) error) *Faulty {
	return &Faulty{inner: inner, fault: fault, calls: map[string]int{}, watchers: map[*watcher]struct{}{}}
}

// Apply applies the kept batches and then the batch, or fails. Errors: the one from fault, joined
// with those of the inner dataplane.
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

// catchUpLocked applies the kept batches.
func (f *Faulty) catchUpLocked(ctx context.Context) error {
	var errs []error
	for _, p := range f.pending {
		errs = append(errs, f.inner.Apply(ctx, p))
	}
	f.pending = nil
	return errors.Join(errs...)
}

// Resync applies the kept batches and resyncs the inner dataplane, or fails. Errors: the one from
// fault, joined with those of the inner dataplane.
func (f *Faulty) Resync(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	injected := f.askLocked(Call{Op: "resync"})
	if injected != nil && general(injected) {
		return injected
	}
	return errors.Join(injected, f.catchUpLocked(ctx), f.inner.Resync(ctx))
}

// Teardown calls the inner dataplane or fails. Errors: the one from fault, or the inner
// dataplane's.
func (f *Faulty) Teardown(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.askLocked(Call{Op: "teardown"}); err != nil {
		return err
	}
	f.pending = nil
	return f.inner.Teardown(ctx)
}

// Drift reports a drift to each Watch that runs. If none runs, the next Watch reports it.
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

// Watch reports each Drift, and the drifts of the inner dataplane if that is a Watcher, too.
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
