// SPDX-License-Identifier: Apache-2.0

package felix

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/dataplane/felix/internal/translate"
)

var (
	// ErrNotRunning is wrapped by the errors of a Dataplane whose driver does not run. The driver
	// has ended, cannot be started, or is not started again before the end of a back-off.
	ErrNotRunning = errors.New("the driver is not running")
	// ErrClosed is wrapped by the errors of a Dataplane after Close.
	ErrClosed = errors.New("closed")
)

// backend is the name of this package in errors and drifts.
const backend = "felix"

// minBackoff is the shortest wait before a driver is started again.
const minBackoff = 100 * time.Millisecond

var (
	_ dataplane.Dataplane = (*Dataplane)(nil)
	_ dataplane.Watcher   = (*Dataplane)(nil)
)

// Dataplane runs a driver that was written for Felix, and sends it the desired state.
//
// Any goroutine may call Watch, Stats and Close at any time. Only one goroutine at a time may call
// the other methods.
type Dataplane struct {
	cfg      Config
	state    *translate.Translator
	statuses statuses

	mu     sync.Mutex
	child  *child // nil if there is none
	closed bool
	starts uint64
	// started is the time of the last attempt to start a driver.
	started time.Time
	// endErr is the reason why the last driver ended or could not be started. No driver is started
	// until notBefore, unless Teardown starts it. backoff is the time from the last failure until
	// notBefore.
	endErr    error
	notBefore time.Time
	backoff   time.Duration
}

// Stats describes the driver of a Dataplane.
type Stats struct {
	// PID is the process ID of the driver. Zero means that none runs.
	PID int
	// Starts is the number of drivers that were started since New.
	Starts uint64
	// Sent is the number of messages that were sent to the running driver. The sequence number of
	// the next message is the same number.
	Sent uint64
}

// New returns a Dataplane, but does not start the driver: Apply does so once the Dataplane has
// received the first complete state. Errors: an invalid Config.
func New(cfg Config) (*Dataplane, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	state := translate.New(translate.Dialect(cfg.Dialect))
	return &Dataplane{cfg: cfg, state: state, statuses: newStatuses(cfg.Timeout)}, nil
}

// Apply implements dataplane.Dataplane. It sends the batch to the driver, and does not wait until
// the driver has programmed it. If the driver was just started, Apply sends the whole state. If ctx
// is done during a write, Apply kills the driver, because the driver may have read a part of a
// message.
//
// Errors: a join of *dataplane.ApplyError, with one error for each of these objects:
//
//   - an object that Felix's messages cannot express, such as a policy that matches a DSCP
//   - an endpoint that the driver reports as failed, or as down although it must be up
//   - with Config.WaitForStatus, an endpoint that the driver has not yet reported as programmed: it
//     is Pending
//
// If the driver does not run or the Dataplane is closed, the error has no Object, and wraps
// ErrNotRunning or ErrClosed.
func (d *Dataplane) Apply(ctx context.Context, b dataplane.Batch) error {
	d.statuses.apply(b)
	c, err := d.running()
	if c != nil {
		c.write(ctx, func(send translate.Send) { d.state.Apply(b, send) })
	} else {
		d.state.Apply(b, nil)
		if !d.state.InSync() {
			return nil
		}
		if err == nil {
			c, err = d.start(false)
		}
		if err != nil {
			return applyError("run driver", err)
		}
		c.write(ctx, func(send translate.Send) { d.snapshot(d.state, send) })
	}
	if err := c.failed(); err != nil {
		return applyError("send", fmt.Errorf("%w: %w", ErrNotRunning, err))
	}
	return errors.Join(append(d.state.Faults(), d.statuses.faults(d.cfg.WaitForStatus)...)...)
}

// Resync implements dataplane.Dataplane. It sends nothing to a running driver, which itself repairs
// changes by other programs. Errors: as Apply.
func (d *Dataplane) Resync(ctx context.Context) error { return d.Apply(ctx, dataplane.Batch{}) }

// Teardown implements dataplane.Dataplane. It ends the running driver, starts a new one with an
// empty state, and closes the input of the new one. The new driver removes everything from the
// kernel and exits. Errors: the new driver cannot be started, had to be killed, or exited with a
// status other than 0. After an error, the Dataplane keeps its state.
func (d *Dataplane) Teardown(ctx context.Context) error {
	if c := d.release(); c != nil {
		_ = c.close()
	}
	c, err := d.start(true)
	if err != nil {
		return applyError("start driver", err)
	}
	empty := translate.New(translate.Dialect(d.cfg.Dialect))
	c.write(ctx, func(send translate.Send) { d.snapshot(empty, send) })
	if err := d.release().close(); err != nil {
		return applyError("remove everything", err)
	}
	d.state = empty
	d.statuses.clear()
	return nil
}

// Close closes the input of the driver, and waits until the driver has exited. If that takes longer
// than Config.Grace, Close kills the driver. Errors: the driver had to be killed, or exited with a
// status other than 0.
func (d *Dataplane) Close() error {
	d.mu.Lock()
	c := d.child
	d.closed = true
	d.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.close()
}

// Stats returns the current Stats.
func (d *Dataplane) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{Starts: d.starts}
	if d.child != nil && d.child.failed() == nil {
		s.PID, s.Sent = d.child.cmd.Process.Pid, d.child.sent.Load()
	}
	return s
}

// running returns the driver, or nil if none runs. It returns an error if the driver is about to
// end, or has ended since the last call.
func (d *Dataplane) running() (*child, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.child == nil || d.closed {
		return nil, nil
	}
	err := d.child.failed()
	if err == nil {
		return d.child, nil
	}
	select {
	case <-d.child.ended:
		d.child = nil
		d.backOffLocked(err)
	default:
	}
	return nil, fmt.Errorf("%w: %w", ErrNotRunning, err)
}

// backOffLocked records why there is no driver, and when to start the next one. The back-off
// doubles, unless the last driver ran longer than MaxBackoff.
func (d *Dataplane) backOffLocked(err error) {
	d.endErr = err
	if time.Since(d.started) > d.cfg.MaxBackoff {
		d.backoff = 0
	}
	d.backoff = min(max(2*d.backoff, minBackoff), d.cfg.MaxBackoff)
	d.notBefore = time.Now().Add(d.backoff)
	d.cfg.Logger.Warn("the driver is not running", "err", err, "retry_in", d.backoff)
}

// release clears the field child, and returns its former value.
func (d *Dataplane) release() *child {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.child
	d.child = nil
	return c
}

// start starts a driver. It returns an error before the end of the back-off, unless now is set.
func (d *Dataplane) start(now bool) (*child, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	if wait := time.Until(d.notBefore); wait > 0 && !now {
		return nil, fmt.Errorf("%w: next start in %s: %w", ErrNotRunning, wait.Round(time.Millisecond), d.endErr)
	}
	d.statuses.reset()
	d.started = time.Now()
	c, err := start(&d.cfg, d.received, d.statuses.notify)
	if err != nil {
		d.backOffLocked(err)
		return nil, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	d.child = c
	d.starts++
	d.cfg.Logger.Info("the driver has started", "pid", c.cmd.Process.Pid)
	return c, nil
}

// snapshot sends the settings and a state.
func (d *Dataplane) snapshot(state *translate.Translator, send translate.Send) {
	const configFile = 3 // Felix's priority of settings from its file; all settings have this source here
	send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_ConfigUpdate{ConfigUpdate: &felixpb.ConfigUpdate{
		Config: d.cfg.Settings,
		SourceToRawConfig: map[uint32]*felixpb.RawConfig{
			configFile: {Source: "config file", Config: d.cfg.Settings},
		},
	}}})
	state.Snapshot(send)
}

// received handles a message of the driver.
func (d *Dataplane) received(m *felixpb.FromDataplane) {
	switch p := m.Payload.(type) {
	case *felixpb.FromDataplane_WorkloadEndpointStatusUpdate:
		if key, ok := translate.Workload(p.WorkloadEndpointStatusUpdate.GetId()); ok {
			d.statuses.report(key, p.WorkloadEndpointStatusUpdate.GetStatus().GetStatus())
		}
	case *felixpb.FromDataplane_WorkloadEndpointStatusRemove:
		if key, ok := translate.Workload(p.WorkloadEndpointStatusRemove.GetId()); ok {
			d.statuses.report(key, "")
		}
	case *felixpb.FromDataplane_HostEndpointStatusUpdate:
		d.statuses.report(translate.Host(p.HostEndpointStatusUpdate.GetId()),
			p.HostEndpointStatusUpdate.GetStatus().GetStatus())
	case *felixpb.FromDataplane_HostEndpointStatusRemove:
		d.statuses.report(translate.Host(p.HostEndpointStatusRemove.GetId()), "")
	case *felixpb.FromDataplane_ProcessStatusUpdate, *felixpb.FromDataplane_WireguardStatusUpdate: // not used
	case *felixpb.FromDataplane_DataplaneInSync:
		d.cfg.Logger.Info("the driver has programmed the first state")
	default:
		d.cfg.Logger.Warn("unknown message of the driver", "sequence_number", m.SequenceNumber)
	}
}

func applyError(op string, err error) error {
	return &dataplane.ApplyError{Backend: backend, Op: op, Err: err}
}
