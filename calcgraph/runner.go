// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// DefaultMaxPending is the default of RunnerConfig.MaxPending.
const DefaultMaxPending = 100_000

// ErrStopped is returned to a source that feeds a Runner whose Run has returned.
var ErrStopped = errors.New("calcgraph: runner has stopped")

// RunnerConfig is what a Runner needs to know.
type RunnerConfig struct {
	// Graph to feed. Nobody else may use it while Run runs. Required.
	Graph *Graph
	// Out takes each batch that is not empty, in order, and returns when the next may come. While it
	// runs, updates coalesce. If it fails, Run ends with its error. Required.
	Out func(context.Context, dataplane.Batch) error
	// MaxPending is how many objects may have an update waiting before Update blocks; the updates of one call
	// are taken together, even where that goes beyond. 0 means DefaultMaxPending.
	MaxPending int
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
// Update and InSync are safe for concurrent use; Run must be called once.
type Runner struct {
	cfg  RunnerConfig
	wake chan struct{} // holds one token while there may be something to take
	done chan struct{} // closed when Run returns

	mu      sync.Mutex
	pending map[policy.Key]policy.Update
	inSync  bool
	room    chan struct{} // closed, and replaced, when pending is taken
}

// NewRunner returns a runner that does nothing before Run is called. It fails if the configuration is
// invalid.
func NewRunner(cfg RunnerConfig) (*Runner, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Runner{
		cfg:     cfg,
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		pending: map[policy.Key]policy.Update{},
		room:    make(chan struct{}),
	}, nil
}

// Update hands on updates, which reach the graph in one flush. It blocks while MaxPending objects are waiting, unless
// it only brings newer states of those. Errors: the context's, or ErrStopped; nothing was taken then.
func (r *Runner) Update(ctx context.Context, updates []policy.Update) error {
	for {
		if err := r.stopped(); err != nil {
			return err
		}
		taken, room := r.put(updates)
		if taken {
			return nil
		}
		select {
		case <-room:
		case <-r.done:
			return ErrStopped
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// InSync says that everything the source held at start has been given to Update. Errors: ErrStopped.
func (r *Runner) InSync(context.Context) error {
	r.mu.Lock()
	r.inSync = true
	r.mu.Unlock()
	r.signal()
	return r.stopped()
}

// Run feeds the graph until the context is done, whose error it returns, or Out fails, whose error
// it returns. It leaves no goroutine behind.
func (r *Runner) Run(ctx context.Context) error {
	defer close(r.done)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		}
		updates, inSync := r.take()
		for _, key := range slices.SortedFunc(maps.Keys(updates), policy.Key.Compare) {
			r.cfg.Graph.Update(updates[key])
		}
		if inSync {
			r.cfg.Graph.InSync()
		}
		batch := r.cfg.Graph.Flush()
		if len(batch.Events) == 0 {
			continue
		}
		if err := r.cfg.Out(ctx, batch); err != nil {
			return err
		}
	}
}

// put merges updates, unless the buffer is full. It returns a channel that is closed when there is
// room again.
func (r *Runner) put(updates []policy.Update) (taken bool, room <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) >= r.cfg.MaxPending && slices.ContainsFunc(updates, func(u policy.Update) bool {
		_, waits := r.pending[u.Key]
		return !waits
	}) {
		return false, r.room
	}
	for _, u := range updates {
		r.pending[u.Key] = u
	}
	r.signal()
	return true, nil
}

func (r *Runner) take() (map[policy.Key]policy.Update, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	updates, inSync := r.pending, r.inSync
	r.pending, r.inSync = map[policy.Key]policy.Update{}, false
	close(r.room)
	r.room = make(chan struct{})
	return updates, inSync
}

func (r *Runner) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Runner) stopped() error {
	select {
	case <-r.done:
		return ErrStopped
	default:
		return nil
	}
}
