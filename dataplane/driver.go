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
	// Dataplanes has at least one dataplane. List those for policy before those for routes: an
	// endpoint is added to the dataplanes in this order, and removed in the reverse order. If a
	// dataplane is a Watcher, the Driver runs its Watch, and calls its Resync when it reports a
	// drift.
	Dataplanes []Dataplane
	// MaxQueued limits the number of batches in the queue: Send blocks at the limit. The batches in
	// the queue are applied as one. 0 means DefaultMaxQueued.
	MaxQueued int
	// MinInterval limits the rate of attempts to program the dataplanes, including retries: on
	// average, the time between two attempts is at least MinInterval. Changes that arrive in
	// between are applied as one. 0, the default, means no limit.
	MinInterval time.Duration
	// Burst is the number of attempts that may follow each other without delay after a pause.
	// MinInterval delays the attempts after these. 0 means 1.
	Burst int
	// ResyncEvery is the interval at which the Driver calls Resync of every dataplane, which
	// compares the kernel with the desired state. 0, the default, means never. Set it if a
	// dataplane is no Watcher.
	ResyncEvery time.Duration
	// MinBackoff limits the wait before the first retry. With each further retry, the limit
	// doubles, up to MaxBackoff. Each wait is a random time between half of the limit and the
	// limit. The default is 100 ms.
	MinBackoff time.Duration
	// MaxBackoff limits the wait before any retry. The default is 30 s, or MinBackoff if that is
	// longer.
	MaxBackoff time.Duration
	// Logger logs failures, recoveries and, at level info, each endpoint that is down. Nil means no
	// log.
	Logger *slog.Logger
	// Hooks are optional functions for metrics. The zero value has none.
	Hooks Hooks
}

// Hooks are optional functions for metrics. A Driver calls them on the goroutine of Run, one at a
// time. They must not block, and must not call methods of the Driver other than Status and Stats.
type Hooks struct {
	// Applied is called after every attempt to program the dataplanes, including retries.
	Applied func(AppliedInfo)
	// Drifted is called for each drift that a dataplane detects, before the resync. If more than
	// 100 drifts arrive during an attempt to program, it is called only for the first 100.
	// Stats.Drifts counts all drifts, except those with OnlyFaults set.
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
	// Resync is true if the Driver called Resync of at least one dataplane.
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
		errs = append(errs, errors.New("dataplane: DriverConfig.Dataplanes: required"))
	}
	for i, dp := range c.Dataplanes {
		if dp == nil {
			errs = append(errs, fmt.Errorf("dataplane: DriverConfig.Dataplanes[%d]: required", i))
		}
	}
	if c.MinBackoff < 0 || c.MaxBackoff < c.MinBackoff {
		errs = append(errs, fmt.Errorf("dataplane: DriverConfig.MinBackoff and MaxBackoff: %s to %s is not a range",
			c.MinBackoff, c.MaxBackoff))
	}
	if c.MaxQueued < 0 || c.Burst < 0 || c.MinInterval < 0 || c.ResyncEvery < 0 {
		errs = append(errs,
			errors.New("dataplane: DriverConfig.MaxQueued, Burst, MinInterval and ResyncEvery: must not be negative"))
	}
	return errors.Join(errs...)
}

// Driver receives batches by Send, and applies them to its dataplanes, in order. It retries failed
// changes, and reports the state of every endpoint. While it is busy, it merges the batches that
// arrive, and then applies them as one.
//
// # Order
//
// An endpoint must not have a route while its policy is missing. So the dataplanes for routes come
// after the dataplanes for policy. A later dataplane adds an endpoint after the earlier dataplanes,
// and removes the endpoint before the earlier dataplanes. A batch takes three steps:
//
//  1. The later dataplanes remove the endpoints that the batch removes, the last dataplane first.
//     While one of them fails to remove an endpoint, the Driver keeps the endpoint in the earlier
//     dataplanes. There, the endpoint has no policies, and Endpoint.Down is set. All packets of
//     such an endpoint are dropped.
//  2. The first dataplane gets the batch.
//  3. Each later dataplane gets the batch, without the events that are withheld from it.
//
// Host endpoints have no routes. So the dataplanes remove a host endpoint in steps 2 and 3.
//
// # Faults
//
// An object is at fault if a dataplane cannot program it. If an endpoint or one of its policies or
// profiles is at fault, the Driver withholds the endpoint's new state from the later dataplanes. If
// a later dataplane already has the endpoint, it gets the endpoint with the former interface and
// addresses, but with the new lists of policies. The former lists are not used, because they may
// name policies that are removed. All of this also holds for host endpoints.
//
// A general error is an error that names no object. After a general error of a dataplane, the
// Driver treats all endpoints and host endpoints as at fault. The later dataplanes also get no new
// or changed routes, and no InSync. They get all other events. The Driver does not call Finish of a
// Finisher while a later dataplane has a general error. The Driver also does not call Finish while
// a route or InSync is withheld from a later dataplane.
//
// # Endpoints that are not ready
//
// In two states, an endpoint is not at fault, but is withheld from later dataplanes, too:
//
//   - EndpointDown: the interface does not exist or is down. When the interface is up, the
//     dataplane reports this.
//   - EndpointPending: after Apply has returned, a dataplane still programs the endpoint, or a
//     policy or profile of the endpoint.
//
// # Concurrency
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
