// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// DefaultMaxPending is the default of RunnerConfig.MaxPending.
const DefaultMaxPending = 100_000

// ErrStopped is returned by the methods of a Runner after its Run has returned.
var ErrStopped = errors.New("calcgraph: runner has stopped")

// ErrStarted is returned by Runner.Run on a second call.
var ErrStarted = errors.New("calcgraph: runner was already started")

// RunnerConfig configures a Runner.
type RunnerConfig struct {
	// Graph to update. Only the Runner may use it during Run. Required.
	Graph *Graph
	// Out receives each batch that is not empty, in order. The next batch follows after Out
	// returns. During a call of Out, the Runner keeps only the latest update of each object. If Out
	// returns an error, Run returns this error. Required.
	Out func(context.Context, dataplane.Batch) error
	// MaxPending limits the number of objects with a pending update: Update blocks while there are
	// so many. The updates of one call are accepted together, even if they exceed the limit. 0
	// means DefaultMaxPending.
	MaxPending int
	// Record receives a recording of the Runner's work: each update, InSync and flush as a line of
	// JSON, before the graph receives it. Package calcgraph/replay describes the format, and can
	// repeat the recorded work. Updates that the graph received before Run are not included. Run
	// waits for each write to Record. Nil means no recording.
	Record io.Writer
	// Hooks report events to the caller. Optional.
	Hooks RunnerHooks
}

// RunnerHooks are optional functions that a Runner calls in the goroutine of Run.
type RunnerHooks struct {
	// RecordFailed is called once if the recording ends early. err is the reason: a write to Record
	// failed, or the format cannot represent an update. The Runner itself continues.
	RecordFailed func(err error)
}

func (c RunnerConfig) withDefaults() RunnerConfig {
	c.MaxPending = cmp.Or(c.MaxPending, DefaultMaxPending)
	return c
}

func (c RunnerConfig) validate() error {
	var errs []error
	if c.Graph == nil {
		errs = append(errs, errors.New("calcgraph: RunnerConfig.Graph: required"))
	}
	if c.Out == nil {
		errs = append(errs, errors.New("calcgraph: RunnerConfig.Out: required"))
	}
	if c.MaxPending < 0 {
		errs = append(errs, errors.New("calcgraph: RunnerConfig.MaxPending: must not be negative"))
	}
	return errors.Join(errs...)
}

// Runner drives a Graph. It accepts updates from a source at any time. While the dataplane is busy,
// the Runner keeps only the latest update of each object. When the dataplane is free, the Runner
// gives the updates to the graph, and calls RunnerConfig.Out with the resulting batch. A Runner is
// a datastore.Receiver.
//
//	source ──Update──▶ latest update of each object ──▶ Graph ──Flush──▶ Out
//	       ◀─blocks──  (MaxPending of them)             ◀──── blocks ────
//
// If a source is faster than the dataplane, its calls of Update block. A call does not block if
// each of its updates replaces a pending update of the same object.
//
// Update, InSync, Barrier and Stats are safe for concurrent use. Run must be called once.
type Runner struct {
	cfg     RunnerConfig
	started atomic.Bool
	wake    chan struct{} // has one token if there may be pending updates
	done    chan struct{} // closed when Run returns

	mu       sync.Mutex
	stopped  bool
	pending  []policy.Update    // latest update of each object, in the order in which objects became pending
	index    map[policy.Key]int // index of an object's update in pending
	inSync   bool
	space    chan struct{}   // closed and replaced when pending becomes empty
	barriers []chan struct{} // closed after the next call of Out, for callers of Barrier
	stats    RunnerStats
}

// RunnerStats has counts of the work of a Runner. It is a copy.
type RunnerStats struct {
	// Pending is the number of objects with a pending update.
	Pending int
	// Updates is the number of accepted updates.
	Updates uint64
	// Coalesced is the number of updates that a later one replaced before the graph received them.
	Coalesced uint64
	// Flushes is the number of flushes. Batches is the number of batches with events that Out has
	// received.
	Flushes, Batches uint64
}

// NewRunner returns a Runner. The Runner accepts updates at once, and processes them when Run is
// called. NewRunner fails if the configuration is invalid.
func NewRunner(cfg RunnerConfig) (*Runner, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Runner{
		cfg:   cfg,
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
		index: map[policy.Key]int{},
		space: make(chan struct{}),
	}, nil
}

// Update adds updates. The effects of the updates of one call are in one batch. While MaxPending
// objects or more have pending updates, Update blocks. It does not block if all of its updates
// replace pending ones. Errors are the context's, or ErrStopped. If Update returns an error, it has
// added no update.
func (r *Runner) Update(ctx context.Context, updates []policy.Update) error {
	for {
		accepted, space, err := r.put(updates)
		if accepted || err != nil {
			return err
		}
		select {
		case <-space:
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// InSync marks the end of the initial state: Update has received everything that the source had.
// The error is ErrStopped if Run has returned, otherwise nil.
func (r *Runner) InSync(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return ErrStopped
	}
	r.inSync = true
	r.signal()
	return nil
}

// Barrier waits until the graph has processed all earlier calls of Update and InSync, and until Out
// has returned for the resulting batch. Until InSync is called, batches have no endpoints, tunnels
// or routes, so Barrier does not wait for these. Until Run is called, Barrier blocks. Errors are
// the context's, or ErrStopped.
func (r *Runner) Barrier(ctx context.Context) error {
	barrier, err := r.addBarrier()
	if err != nil {
		return err
	}
	select {
	case <-barrier:
		return nil
	case <-r.done:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// addBarrier returns a channel that is closed after the next call of Out.
func (r *Runner) addBarrier() (<-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, ErrStopped
	}
	barrier := make(chan struct{})
	r.barriers = append(r.barriers, barrier)
	r.signal()
	return barrier, nil
}

// Stats returns the current counts.
func (r *Runner) Stats() RunnerStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	stats := r.stats
	stats.Pending = len(r.pending)
	return stats
}

// Run processes updates until the context is done or Out returns an error. It returns the context's
// error or that of Out. It leaves no goroutine behind. If Run was called before, it returns
// ErrStarted.
func (r *Runner) Run(ctx context.Context) error {
	if r.started.Swap(true) {
		return ErrStarted
	}
	defer r.stop()
	rec := newRecorder(r.cfg)
	for {
		select {
		case <-ctx.Done():
		case <-r.wake:
		}
		// If both are ready, select chooses at random. After the context is done, no batch may be
		// sent.
		if err := ctx.Err(); err != nil {
			return err
		}
		batch, barriers := r.flush(rec)
		if !batch.Empty() {
			if err := r.cfg.Out(ctx, batch); err != nil {
				return err
			}
		}
		for _, barrier := range barriers {
			close(barrier)
		}
	}
}

// flush sends the pending updates to the graph and flushes it. It returns the batch and the
// barriers to close.
func (r *Runner) flush(rec *recorder) (dataplane.Batch, []chan struct{}) {
	updates, inSync, barriers := r.take()
	rec.round(updates, inSync)
	for _, u := range updates {
		r.cfg.Graph.Update(u)
	}
	if inSync {
		r.cfg.Graph.InSync()
	}
	batch := r.cfg.Graph.Flush()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Flushes++
	if !batch.Empty() {
		r.stats.Batches++
	}
	return batch, barriers
}

// stop drops pending updates and makes blocked callers return.
func (r *Runner) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.pending, r.index = nil, nil
	close(r.done)
}

// put merges updates into pending. If pending is full, put does not accept the updates, and returns
// a channel that is closed when there is space again.
func (r *Runner) put(updates []policy.Update) (accepted bool, space <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return false, nil, ErrStopped
	}
	if len(r.pending) >= r.cfg.MaxPending && slices.ContainsFunc(updates, func(u policy.Update) bool {
		_, pending := r.index[u.Key]
		return !pending
	}) {
		return false, r.space, nil
	}
	for _, u := range updates {
		if i, pending := r.index[u.Key]; pending {
			r.pending[i] = u
			r.stats.Coalesced++
			continue
		}
		r.index[u.Key] = len(r.pending)
		r.pending = append(r.pending, u)
	}
	r.stats.Updates += uint64(len(updates))
	r.signal()
	return true, nil, nil
}

// take returns the pending updates and resets pending. It does not reuse the memory, which would
// stay large after the initial state.
func (r *Runner) take() ([]policy.Update, bool, []chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	updates, inSync, barriers := r.pending, r.inSync, r.barriers
	r.pending, r.index, r.inSync, r.barriers = nil, map[policy.Key]int{}, false, nil
	close(r.space)
	r.space = make(chan struct{})
	return updates, inSync, barriers
}

func (r *Runner) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
