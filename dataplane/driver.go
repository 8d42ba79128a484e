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

// DefaultMaxQueued is the default of DriverConfig.MaxQueued, in batches.
const DefaultMaxQueued = 16

// DriverConfig configures a Driver. NewDriver copies it, so the caller may use it again.
type DriverConfig struct {
	// Dataplanes in order of dependency, at least one: those for policy before those for routes. An
	// endpoint is added to a later dataplane after the earlier ones, and removed from it before
	// them. The Driver watches each Watcher, and resyncs it when it reports a drift.
	Dataplanes []Dataplane
	// MaxQueued limits the number of batches in the queue: Send blocks at the limit. The batches in
	// the queue are applied as one. 0 means DefaultMaxQueued.
	MaxQueued int
	// MinInterval is the least mean time between two attempts to program the dataplanes, whatever
	// their cause. Changes in between are applied as one. 0, the default, means no limit.
	MinInterval time.Duration
	// Burst is the number of attempts that may follow each other at once after a pause, before
	// MinInterval delays the next. 0 means 1.
	Burst int
	// ResyncEvery is the interval at which every dataplane compares the kernel with the desired
	// state. 0, the default, means never. Set it if a dataplane is no Watcher.
	ResyncEvery time.Duration
	// MinBackoff is the upper bound of the random wait before the first retry. Default 100 ms.
	MinBackoff time.Duration
	// MaxBackoff is the upper bound of the wait before any retry. The wait doubles up to this.
	// Default 30 s.
	MaxBackoff time.Duration
	// Logger logs failures, recoveries and, at level info, each endpoint that is down. Nil
	// discards.
	Logger *slog.Logger
	// Hooks are optional functions for metrics. The zero value has none.
	Hooks Hooks
}

// Hooks are optional functions for metrics. A Driver calls them on the goroutine of Run, one at a
// time. They must not block, and must not call methods of the Driver other than Status and Stats.
type Hooks struct {
	// Applied is called after every attempt to program the dataplanes, including retries.
	Applied func(AppliedInfo)
	// Drifted is called for each drift that a dataplane detects, before the resync. At most 100
	// drifts are reported for each attempt. Stats counts all of them.
	Drifted func(Drift)
}

// AppliedInfo describes one attempt to program.
type AppliedInfo struct {
	// Duration of the attempt, for all dataplanes together.
	Duration time.Duration
	// Batches is the number of batches that this attempt merged and applied; 0 for a retry or a
	// resync.
	Batches int
	// Events is the number of events in the merged batch.
	Events int
	// Resync is set if at least one dataplane compared the kernel with the desired state.
	Resync bool
	// Err joins the errors of the dataplanes; nil if there are none. That an endpoint is down is no
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
// changes, and reports the state of every endpoint. While it is busy, it merges the batches that
// arrive, and then applies them as one.
//
// # Order
//
// An endpoint must not have a route while its policy is missing. So the later dataplanes, such as
// routes, get an endpoint after the earlier ones, and remove it before them:
//
//  1. The later dataplanes remove the endpoints that the batch removes, the last dataplane first.
//     While one of them fails to remove an endpoint, the earlier ones keep it, down and without
//     policy, so its packets drop.
//  2. The first dataplane gets the batch.
//  3. Each later dataplane gets the batch, without the events that are withheld from it.
//
// Host endpoints have no routes, and are removed as other objects are.
//
// # Faults
//
// If an endpoint is at fault in an earlier dataplane, or a policy or profile that it refers to is,
// the Driver withholds its new state from the later ones. A later dataplane that has the endpoint
// keeps its former interface and addresses, and gets only its new policy, so that it refers to no
// policy that is removed. All of this also holds for host endpoints.
//
// A general error is one that is not of a single object. After a general error of a dataplane, the
// Driver treats all endpoints and host endpoints as at fault. The later dataplanes also get no new
// or changed routes, and no InSync. They get all other events. While a later dataplane has a
// general error, the Driver does not call Finish of a Finisher.
//
// # Endpoints that are not ready
//
// Two states are no failures, but also withhold an endpoint from later dataplanes:
//
//   - EndpointDown: the interface does not exist or is down. The dataplane reports when the
//     interface is there.
//   - EndpointPending: a dataplane continues to program the endpoint, or a policy or profile that
//     it refers to, after Apply has returned.
//
// All methods may be called from any goroutine.
type Driver struct {
	cfg DriverConfig
	// pipeline and merger are only used by Run or Teardown, which exclude each other.
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
