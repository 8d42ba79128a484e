// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"log/slog"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/state"
	"github.com/wayleave/wayleave/policy"
)

// worker applies the batches of a server to a dataplane, on one goroutine.
type worker struct {
	dp  dataplane.Dataplane
	log *slog.Logger
	// applied is the state that the dataplane has received.
	applied *state.State
	// received is the server's new state, from the start of a snapshot until the state is complete;
	// otherwise nil.
	received *state.State
	// session and generation identify the state after the last batch.
	session    string
	generation uint64
}

// apply applies a batch of a server, and returns the errors of the dataplane. While the server's
// new state is incomplete, apply only records the batch.
func (w *worker) apply(ctx context.Context, generation uint64, snapshot bool, b dataplane.Batch) error {
	w.generation = generation
	if snapshot {
		w.received = state.New()
	}
	if w.received == nil {
		w.applied.Apply(b)
		return w.program(ctx, b)
	}
	w.received.Apply(b)
	if !w.received.InSync() {
		return nil
	}
	b = w.applied.ChangesTo(w.received)
	w.applied, w.received = w.received, nil
	return w.program(ctx, b)
}

// program applies a batch to the dataplane.
func (w *worker) program(ctx context.Context, b dataplane.Batch) error {
	if f, ok := w.dp.(dataplane.Finisher); ok {
		return f.ApplyVisible(ctx, b)
	}
	return w.dp.Apply(ctx, b)
}

// resync calls Resync of the dataplane, if a complete state has been applied.
func (w *worker) resync(ctx context.Context) error {
	if !w.applied.InSync() {
		return nil
	}
	return w.dp.Resync(ctx)
}

// plan returns the changes that a batch would make.
func (w *worker) plan(ctx context.Context, b dataplane.Batch) (string, error) {
	p, ok := w.dp.(dataplane.Planner)
	if !ok {
		return "", ErrNoPlan
	}
	if w.received == nil {
		return p.Plan(ctx, b)
	}
	next := w.received.Clone()
	next.Apply(b)
	if !next.InSync() {
		return "", nil
	}
	return p.Plan(ctx, w.applied.ChangesTo(next))
}

// teardown calls Teardown of the dataplane, and clears the state.
func (w *worker) teardown(ctx context.Context) error {
	if err := w.dp.Teardown(ctx); err != nil {
		return err
	}
	w.applied, w.received = state.New(), state.New()
	return nil
}

// repair repairs a drift while there is no connection.
func (w *worker) repair(ctx context.Context, d dataplane.Drift) {
	if d.Repaired || d.OnlyFaults || !w.applied.InSync() {
		return
	}
	w.log.Info("drift detected", "backend", d.Backend, "object", d.Object, "process", d.Process)
	if err := w.dp.Resync(ctx); err != nil && ctx.Err() == nil {
		w.log.Warn("cannot repair the dataplane", "err", err)
	}
}

// unfinished returns the channel of a dataplane.Finisher, or nil.
func (w *worker) unfinished() <-chan struct{} {
	if f, ok := w.dp.(dataplane.Finisher); ok {
		return f.Unfinished()
	}
	return nil
}

// finish makes the deletions that the dataplane has deferred.
func (w *worker) finish(ctx context.Context) {
	if err := w.dp.(dataplane.Finisher).Finish(ctx); err != nil && ctx.Err() == nil {
		w.log.Warn("cannot delete unused objects", "err", err)
		w.repair(ctx, dataplane.Drift{Backend: backend, Object: "unused objects"})
	}
}

// unjudged returns the result of Unjudged if the dataplane is a dataplane.Limited, otherwise nil.
func (w *worker) unjudged() map[policy.Key]string {
	if l, ok := w.dp.(dataplane.Limited); ok {
		return l.Unjudged()
	}
	return nil
}
