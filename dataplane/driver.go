// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wayleave/wayleave/policy"
)

var (
	// ErrStopped is returned by methods of a Driver whose Run has returned.
	ErrStopped = errors.New("dataplane: driver has stopped")
	// ErrRunning is returned by methods of a Driver that cannot be called while Run is.
	ErrRunning = errors.New("dataplane: driver is running")
)

// DriverConfig configures a Driver. It is copied by NewDriver and may be reused.
type DriverConfig struct {
	// Dataplanes in order of dependency, at least one: policy before routes. An endpoint reaches a later
	// dataplane once the earlier ones have it, and leaves it before it leaves them.
	Dataplanes []Dataplane
	// MinBackoff is the longest wait before the first retry. Default 100 ms.
	MinBackoff time.Duration
	// MaxBackoff is the longest wait before any retry. It doubles up to this. Default 30 s.
	MaxBackoff time.Duration
	// Logger of failures and recoveries. Nil discards.
	Logger *slog.Logger
	// Hooks are called as things happen.
	Hooks Hooks
}

// Hooks are optional functions for metrics. They are called on the goroutine of Run and must not
// block or call the Driver's methods, Status apart. One driver calls them one at a time.
type Hooks struct {
	// Applied is called after every attempt to program, retries included.
	Applied func(AppliedInfo)
}

// AppliedInfo describes one attempt to program. It is plain data.
type AppliedInfo struct {
	// Duration of the calls to all dataplanes.
	Duration time.Duration
	// Events in the batch; 0 for a retry or a resync.
	Events int
	// Err is what the dataplanes returned, joined; nil if all is well.
	Err error
}

func (c DriverConfig) withDefaults() DriverConfig {
	if c.MinBackoff == 0 {
		c.MinBackoff = 100 * time.Millisecond
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = max(30*time.Second, c.MinBackoff)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c DriverConfig) validate() error {
	var errs []error
	if len(c.Dataplanes) == 0 {
		errs = append(errs, errors.New("dataplane: DriverConfig.Dataplanes: at least one is required"))
	}
	for i, dp := range c.Dataplanes {
		if dp == nil {
			errs = append(errs, fmt.Errorf("dataplane: DriverConfig.Dataplanes[%d]: nil", i))
		}
	}
	if c.MinBackoff < 0 || c.MaxBackoff < c.MinBackoff {
		errs = append(errs, fmt.Errorf("dataplane: DriverConfig: back-off from %s to %s", c.MinBackoff, c.MaxBackoff))
	}
	return errors.Join(errs...)
}

// Driver keeps several dataplanes in step with the batches that it is sent: it applies
// them in order, retries what failed, and knows what state every endpoint is in.
//
// An endpoint that goes leaves the later dataplanes first; while one of them fails to remove it, those before keep
// it, down and without policy. Then the earlier dataplanes get the batch, then the
// later ones. A later dataplane does not hear of the new state of an endpoint that is at
// fault in an earlier one (itself, or by a policy or profile that it refers to): there the endpoint keeps the
// link that it had (none, if it is new), and only its policy references follow, so that nothing refers to
// what goes. The same holds for host endpoints, which go as any other object does. After a failure that is
// not of one object it holds for all endpoints of both kinds, and InSync is kept back too. All other events go to every dataplane at once.
//
// All methods may be called from any goroutine.
type Driver struct {
	cfg DriverConfig
	// stages and leaving are used by the goroutine of Run only.
	stages  []*stage
	leaving map[policy.Key]*leaver

	batches chan sending
	resyncs chan chan<- error
	stopped chan struct{} // closed when Run has returned

	mu       sync.Mutex
	occupied bool // Run or Teardown is at work
	status   progress
}

// sending is a batch on its way from Send to Run.
type sending struct {
	batch    Batch
	accepted chan<- struct{}
}

// NewDriver returns a driver that is not running yet. Errors: a join of all problems of the configuration.
func NewDriver(cfg DriverConfig) (*Driver, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &Driver{
		cfg:     cfg,
		batches: make(chan sending),
		resyncs: make(chan chan<- error),
		stopped: make(chan struct{}),
		leaving: map[policy.Key]*leaver{},
		status:  newProgress(),
	}
	for _, dp := range cfg.Dataplanes {
		d.stages = append(d.stages, newStage(dp))
	}
	return d, nil
}

// Run programs what it is sent until the context is done, then returns the context's error. The kernel stays as it
// is. A driver runs once. Errors: the context's; ErrRunning or ErrStopped on a second call.
func (d *Driver) Run(ctx context.Context) error {
	if err := d.begin(); err != nil {
		return err
	}
	defer d.end()
	var (
		back  = backoff{least: d.cfg.MinBackoff, most: d.cfg.MaxBackoff}
		timer = time.NewTimer(0)
		retry <-chan time.Time // nil while there is nothing to retry
		said  string           // the last failure in the log
	)
	defer timer.Stop()
	for ctx.Err() == nil {
		var result outcome
		select {
		case <-ctx.Done():
			continue
		case s := <-d.batches:
			d.accept(s.batch)
			close(s.accepted)
			result = d.round(ctx, work{batch: s.batch})
		case done := <-d.resyncs:
			result = d.round(ctx, work{resync: true})
			done <- result.err()
		case <-retry:
			back.grow()
			result = d.round(ctx, work{})
		}
		retry = nil
		if wait, again := back.after(result); again {
			timer.Reset(wait)
			retry = timer.C
			level := slog.LevelWarn
			if text := result.err().Error(); text == said {
				level = slog.LevelDebug // said already
			} else {
				said = text
			}
			d.cfg.Logger.Log(ctx, level, "programming failed", "err", result.err(), "retry_in", wait)
		} else {
			said = ""
		}
	}
	return ctx.Err()
}

// Send hands over a batch and returns as soon as the driver has it; from then on WaitProgrammed waits for it. It blocks
// while an earlier batch, a retry or a resync is being applied, and before Run is called. Batches are
// applied in the order in which they were handed over; none is lost or repeated. The caller must not change the batch any more.
//
// Errors: the context's, or ErrStopped; the batch was then not handed over.
func (d *Driver) Send(ctx context.Context, b Batch) error {
	accepted := make(chan struct{})
	select {
	case d.batches <- sending{b, accepted}:
		<-accepted
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stopped:
		return ErrStopped
	}
}

// Resync has every dataplane compare the kernel with the desired state and repair it, and
// waits until that is done.
//
// Errors: a join of those of the dataplanes, which are retried as those of Apply are; the context's
// (the resync may then still happen); ErrStopped.
func (d *Driver) Resync(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case d.resyncs <- done:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stopped:
		return ErrStopped
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Teardown removes everything that the dataplanes ever programmed, the later ones first. It must not
// be called while Run is. All dataplanes are tried.
//
// Errors: a join of those of the dataplanes; ErrRunning.
func (d *Driver) Teardown(ctx context.Context) error {
	if err := d.occupy(true); err != nil {
		return err
	}
	defer func() { _ = d.occupy(false) }()
	var errs []error
	for i := len(d.stages) - 1; i >= 0; i-- {
		errs = append(errs, d.stages[i].dp.Teardown(ctx))
	}
	return errors.Join(errs...)
}

// occupy claims the dataplanes for the caller, or gives them back.
func (d *Driver) occupy(claim bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if claim && d.occupied {
		return ErrRunning
	}
	d.occupied = claim
	return nil
}

func (d *Driver) begin() error {
	select {
	case <-d.stopped:
		return ErrStopped
	default:
		return d.occupy(true)
	}
}

func (d *Driver) end() {
	close(d.stopped)
	_ = d.occupy(false)
}

// backoff says how long to wait before the next retry.
type backoff struct {
	least, most time.Duration
	next        time.Duration
	failing     map[policy.Key]error
	general     bool
}

// grow doubles the wait, up to the most.
func (b *backoff) grow() { b.next = min(2*b.next, b.most) }

// after looks at what came of an attempt and returns whether there is something to retry, and after what wait,
// of which up to half is random. The wait starts anew when all is well and when something fails that did not before: a
// lasting fault of one object does not delay the others'.
func (b *backoff) after(o outcome) (wait time.Duration, again bool) {
	fresh := o.general != nil && !b.general
	for k := range o.objects {
		if b.failing[k] == nil {
			fresh = true
		}
	}
	b.failing, b.general = o.objects, o.general != nil
	if fresh || b.next == 0 {
		b.next = b.least
	}
	if o.err() == nil {
		b.next = 0
		return 0, false
	}
	return b.next/2 + rand.N(b.next/2+1), true
}
