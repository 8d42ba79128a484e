// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

var (
	// ErrStopped is returned by methods of a Driver whose Run has returned.
	ErrStopped = errors.New("dataplane: driver has stopped")
	// ErrRunning is returned by methods of a Driver that cannot be called during Run.
	ErrRunning = errors.New("dataplane: driver is running")
)

// DefaultMaxQueued is the default of DriverConfig.MaxQueued.
const DefaultMaxQueued = 16

// DriverConfig configures a Driver. It is copied by NewDriver and may be reused.
type DriverConfig struct {
	// Dataplanes in order of dependency, at least one: policy before routes. An endpoint is added
	// to a later dataplane after the earlier ones, and removed from it before them. Watchers are
	// watched, and resynced when they drift.
	Dataplanes []Dataplane
	// MaxQueued limits the batches in the queue, which are applied as one: Send blocks at the
	// limit. 0 means DefaultMaxQueued.
	MaxQueued int
	// MinInterval is the least mean time between two attempts to program, for any reason. Changes
	// in between are applied as one. 0 means no limit.
	MinInterval time.Duration
	// Burst limits the attempts that may follow each other at once after a pause, despite
	// MinInterval. 0 means 1.
	Burst int
	// ResyncEvery is the interval at which every dataplane compares the kernel with the desired
	// state. 0, the default, means never: a Watcher does not need it.
	ResyncEvery time.Duration
	// MinBackoff is the longest wait before the first retry. Default 100 ms.
	MinBackoff time.Duration
	// MaxBackoff is the longest wait before any retry. The wait doubles up to this. Default 30 s.
	MaxBackoff time.Duration
	// Logger logs failures and recoveries, and at level info each endpoint that is down. Nil discards.
	Logger *slog.Logger
	// Hooks are optional functions for metrics.
	Hooks Hooks
}

// Hooks are optional functions for metrics. They are called on the goroutine of Run, and must not
// block or call the Driver's methods, except Status and Stats. A Driver calls one at a time.
type Hooks struct {
	// Applied is called after every attempt to program, retries included.
	Applied func(AppliedInfo)
	// Drifted is called for each drift that a dataplane detects, before a resync. Of very many at
	// once some are omitted; Stats counts them all.
	Drifted func(Drift)
}

// AppliedInfo describes one attempt to program.
type AppliedInfo struct {
	// Duration of the calls to all dataplanes.
	Duration time.Duration
	// Batches that are applied in this attempt, merged into one; 0 for a retry or a resync.
	Batches int
	// Events in the merged batch.
	Events int
	// Resync is set if at least one dataplane compared the kernel with the desired state.
	Resync bool
	// Err joins the errors of the dataplanes; nil if there are none. An endpoint that is down is no
	// error.
	Err error
}

func (c DriverConfig) withDefaults() DriverConfig {
	c.MaxQueued = cmp.Or(c.MaxQueued, DefaultMaxQueued)
	c.Burst = cmp.Or(c.Burst, 1)
	c.MinBackoff = cmp.Or(c.MinBackoff, 100*time.Millisecond)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, max(30*time.Second, c.MinBackoff))
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
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
	if c.MaxQueued < 0 || c.Burst < 0 || c.MinInterval < 0 || c.ResyncEvery < 0 {
		errs = append(errs,
			errors.New("dataplane: DriverConfig: MaxQueued, Burst, MinInterval and ResyncEvery must not be negative"))
	}
	return errors.Join(errs...)
}

// Driver applies the batches that it is sent to several dataplanes, in order. It retries failed
// changes, and tracks the state of every endpoint. Batches that arrive while it is busy are applied
// as one.
//
// An endpoint is removed from the later dataplanes first; while one of them fails to remove it,
// those before keep it, down and without policy. Then the earlier dataplanes get the batch, then
// the later ones. A later dataplane does not get the new state of an endpoint that is at fault in
// an earlier one (itself, or by a policy or profile that it refers to): there the endpoint keeps
// its former link (none, if it is new), and only its policy references change, so that nothing
// refers to removed objects. The same holds for host endpoints, which are removed as any other
// object. After a failure that is not of one object it holds for all endpoints of both kinds, and
// new or changed routes and InSync are withheld too. All other events go to every dataplane at once.
// A Finisher finishes only while no later dataplane has such a failure.
//
// An endpoint whose interface does not exist or is down is not failing, but EndpointDown. It is
// withheld from later dataplanes, too. The dataplane reports when the interface is there. The same holds
// for an endpoint that a dataplane still works on after Apply, or that refers to such a policy or profile:
// it is EndpointPending.
//
// All methods may be called from any goroutine.
type Driver struct {
	cfg DriverConfig
	// Only Run or Teardown uses the next fields, one at a time.
	pipeline pipeline
	merger   merger

	life lifecycle
	wake wakeup // is signalled when there may be something in the queue

	mu       sync.Mutex
	queue    queue
	status   progress
	stats    Stats
	disputes disputes
}

// NewDriver returns a driver that is not running yet. Errors: a join of all problems of the
// configuration.
func NewDriver(cfg DriverConfig) (*Driver, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Driver{
		cfg:      cfg,
		pipeline: newPipeline(cfg.Dataplanes),
		merger:   newMerger(),
		life:     lifecycle{quit: make(chan struct{}), stopped: make(chan struct{})},
		wake:     newWakeup(),
		queue:    newQueue(),
		status:   newProgress(),
		stats:    newStats(),
		disputes: newDisputes(),
	}, nil
}
