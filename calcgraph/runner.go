// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
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

// ErrStopped is returned to a source that feeds a Runner whose Run has returned.
var ErrStopped = errors.New("calcgraph: runner has stopped")

// ErrStarted is returned by Runner.Run from the second call on.
var ErrStarted = errors.New("calcgraph: runner was started before")

// RunnerConfig configures a Runner. It is read by NewRunner alone.
type RunnerConfig struct {
	// Graph to update. It must not be used otherwise while Run runs. Required.
	Graph *Graph
	// Out takes each batch that is not empty, in order, and returns when the next may come. While
	// it runs, updates coalesce. If it fails, Run ends with its error. Required.
	Out func(context.Context, dataplane.Batch) error
	// MaxPending is how many objects may have an update waiting before Update blocks; the updates
	// of one call are taken together, even where that goes beyond. 0 means DefaultMaxPending.
	MaxPending int
	// Record takes, in lines of JSON, every update, in-sync and flush before the graph does, so
	// that package calcgraph/replay can play them again; see there for the format. What the graph
	// was given before Run is not in it. Writes come from the goroutine of Run, some for each
	// flush, and hold it up while they last. Nil means that nothing is recorded.
	Record io.Writer
	// Hooks report events to the caller. Optional.
	Hooks RunnerHooks
}

// RunnerHooks are optional functions that a Runner calls from Run, on its goroutine.
type RunnerHooks struct {
	// RecordFailed is called once, with the reason, when the recording ends because Record fails or
	// because it cannot hold an update. The runner goes on without it.
	RecordFailed func(err error)
}

func (c RunnerConfig) withDefaults() RunnerConfig {
	if c.MaxPending == 0 {
		c.MaxPending = DefaultMaxPending
	}
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

// Runner drives a Graph: it takes updates from a source at any time, coalesces them by key while
// the dataplane is busy, and flushes once for each hand-over. It is a
// datastore.Receiver.
//
//	source ──Update──▶ latest update of each object ──▶ Graph ──Flush──▶ Out
//	       ◀─blocks──  (MaxPending of them)             ◀──── blocks ────
//
// A source that is faster than the dataplane waits in Update, and one that changes the same objects
// again and again waits for nothing: of each object the latest state alone is kept, and reaches the
// graph at most once a flush.
//
// Update, InSync, Barrier and Stats are safe for concurrent use; Run must be called once.
type Runner struct {
	cfg     RunnerConfig
	started atomic.Bool
	wake    chan struct{} // holds one token while there may be something to take
	done    chan struct{} // closed when Run returns

	mu      sync.Mutex
	stopped bool
	pending []policy.Update    // the latest of each object, in the order in which they first came
	place   map[policy.Key]int // where the object is in pending
	inSync  bool
	room    chan struct{}   // closed, and replaced, when pending is taken
	waiting []chan struct{} // of those who wait in Barrier, to be closed after the next hand-over
	stats   RunnerStats
}

// RunnerStats counts what a Runner has done. It is a plain copy; changing it has no effect.
type RunnerStats struct {
	// Pending is how many objects have an update waiting now.
	Pending int
	// Updates is how many updates were taken since the runner was made.
	Updates uint64
	// Coalesced is how many of those were replaced by a later one before they reached the graph.
	Coalesced uint64
	// Flushes is how often the graph was flushed, and Batches how many batches that had events Out
	// was given.
	Flushes, Batches uint64
}

// NewRunner returns a runner that does nothing before Run is called. It fails if the configuration
// is invalid.
func NewRunner(cfg RunnerConfig) (*Runner, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Runner{
		cfg:   cfg,
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
		place: map[policy.Key]int{},
		room:  make(chan struct{}),
	}, nil
}

// Update hands on updates, which reach the graph in one flush. It blocks while MaxPending objects
// are waiting, unless it only brings newer states of those. Errors: the context's, or ErrStopped;
// nothing was taken then.
func (r *Runner) Update(ctx context.Context, updates []policy.Update) error {
	for {
		taken, room, err := r.put(updates)
		if taken || err != nil {
			return err
		}
		select {
		case <-room:
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// InSync marks the end of the initial state: Update has received everything that the source had. Errors:
// ErrStopped.
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

// Barrier returns once everything that Update and InSync had taken before the call has been through
// the graph, and Out has taken what came of it. A graph that is not in sync holds everything back,
// and Barrier does not wait for that. Before Run is called it blocks. Errors: the context's, or
// ErrStopped.
func (r *Runner) Barrier(ctx context.Context) error {
	passed, err := r.wait()
	if err != nil {
		return err
	}
	select {
	case <-passed:
		return nil
	case <-r.done:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait returns a channel that is closed after the next hand-over.
func (r *Runner) wait() (<-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, ErrStopped
	}
	passed := make(chan struct{})
	r.waiting = append(r.waiting, passed)
	r.signal()
	return passed, nil
}

// Stats returns what the runner has done so far.
func (r *Runner) Stats() RunnerStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	stats := r.stats
	stats.Pending = len(r.pending)
	return stats
}

// Run feeds the graph until the context is done, whose error it returns, or Out fails, whose error
// it returns. It leaves no goroutine behind. Called again it returns ErrStarted.
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
		// Where both are ready the choice is random, and nothing more must be handed over.
		if err := ctx.Err(); err != nil {
			return err
		}
		batch, waiting := r.flush(rec)
		if !batch.Empty() {
			if err := r.cfg.Out(ctx, batch); err != nil {
				return err
			}
		}
		for _, passed := range waiting {
			close(passed)
		}
	}
}

// flush gives the graph what waits, and takes what comes of it. It returns those who wait for the
// hand-over, too.
func (r *Runner) flush(rec *recorder) (dataplane.Batch, []chan struct{}) {
	updates, inSync, waiting := r.take()
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
	return batch, waiting
}

// stop lets go of those who wait, and of what waits.
func (r *Runner) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.pending, r.place = nil, nil
	close(r.done)
}

// put merges updates, unless the buffer is full. It returns a channel that is closed when there is
// room again.
func (r *Runner) put(updates []policy.Update) (taken bool, room <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return false, nil, ErrStopped
	}
	if len(r.pending) >= r.cfg.MaxPending && slices.ContainsFunc(updates, func(u policy.Update) bool {
		_, waits := r.place[u.Key]
		return !waits
	}) {
		return false, r.room, nil
	}
	for _, u := range updates {
		if i, waits := r.place[u.Key]; waits {
			r.pending[i] = u
			r.stats.Coalesced++
			continue
		}
		r.place[u.Key] = len(r.pending)
		r.pending = append(r.pending, u)
	}
	r.stats.Updates += uint64(len(updates))
	r.signal()
	return true, nil, nil
}

// take empties the buffer. It is not used again: after a large first load it would stay large.
func (r *Runner) take() ([]policy.Update, bool, []chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	updates, inSync, waiting := r.pending, r.inSync, r.waiting
	r.pending, r.place, r.inSync, r.waiting = nil, map[policy.Key]int{}, false, nil
	close(r.room)
	r.room = make(chan struct{})
	return updates, inSync, waiting
}

func (r *Runner) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
