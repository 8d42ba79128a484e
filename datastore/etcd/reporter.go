// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/policy"
)

// ReporterConfig says which node reports, and how often.
//
// It is a plain value and is not changed by the Reporter.
type ReporterConfig struct {
	// Client to write with. Required.
	Client *Client
	// Node that reports. Required; 1 to 265 letters, digits and -_.:@+~. Two Reporters of one node
	// make each other fail repeatedly; both report that to Lost.
	Node string
	// TTL is how long a report outlives a node that is gone without a word, in whole seconds. Each
	// third of it the report is read back, and confirmed where the servers have elected a leader
	// since. Default: 30 s; at least 2 s.
	TTL time.Duration
	// Interval is the least time between two writes. What is set meanwhile is coalesced. Default:
	// 200 ms.
	Interval time.Duration
	// MaxBackOff is the longest time between two attempts to reach the store. Default: 5 s.
	MaxBackOff time.Duration
	// Lost is called from the goroutine of Run with the error of every attempt to report that fails.
	// Optional.
	Lost func(err error)
}

func (c ReporterConfig) withDefaults() ReporterConfig {
	if c.TTL == 0 {
		c.TTL = 30 * time.Second
	}
	if c.Interval == 0 {
		c.Interval = 200 * time.Millisecond
	}
	if c.MaxBackOff == 0 {
		c.MaxBackOff = 5 * time.Second
	}
	if c.Lost == nil {
		c.Lost = func(error) {}
	}
	return c
}

func (c ReporterConfig) validate() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("etcd: ReporterConfig.Client: required"))
	}
	if err := checkSegment("Node", c.Node); err != nil {
		errs = append(errs, err)
	}
	if c.TTL < 2*time.Second || c.TTL%time.Second != 0 {
		errs = append(errs, errors.New("etcd: ReporterConfig.TTL: want whole seconds, at least 2"))
	}
	if c.Interval < 0 || c.MaxBackOff < 0 {
		errs = append(errs, errors.New("etcd: ReporterConfig: Interval and MaxBackOff must not be negative"))
	}
	return errors.Join(errs...)
}

// Reporter tells the store what is in force on a node, under a lease: once nobody renews that any
// more, the node's reports are gone. It reports a revision only to the store whose History that is
// of, and otherwise that the node is not in sync. Its Client must be the Source's, and may read the
// state.
//
// Set is safe for concurrent use. Run may run once at a time.
type Reporter struct {
	config ReporterConfig

	mu      sync.Mutex
	running bool
	report  *Report       // the latest
	wake    chan struct{} // holds a token after Set
	last    lastReport    // belongs to Run
}

// NewReporter returns a reporter. It does not speak to the store before Run. It fails if the
// configuration is invalid.
func NewReporter(cfg ReporterConfig) (*Reporter, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Reporter{config: cfg, wake: make(chan struct{}, 1)}, nil
}

// Set says what there is to report now. It does not wait. The maps in the report must not be
// changed afterwards.
func (r *Reporter) Set(report Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report = &report
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run reports until ctx is done, takes the reports back, and returns the error of ctx, or
// ErrRunning. A failure of the store does not end it: Run calls Lost, and tries again.
func (r *Reporter) Run(ctx context.Context) error {
	r.mu.Lock()
	if r.running {
		r.mu.Unlock()
		return fmt.Errorf("%w: Reporter", ErrRunning)
	}
	r.running = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running = false
		r.mu.Unlock()
	}()
	for retry := (backOff{most: r.config.MaxBackOff}); ; {
		err := r.session(ctx, &retry)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.config.Lost(err)
		retry.wait(ctx)
	}
}

// session reports under one lease until that is lost.
func (r *Reporter) session(ctx context.Context, retry *backOff) error {
	etcd, err := r.config.Client.conn(ctx)
	if err != nil {
		return err
	}
	granting, cancel := r.config.Client.request(ctx)
	lease, err := etcd.Grant(granting, int64(r.config.TTL/time.Second))
	cancel()
	if err != nil {
		return fmt.Errorf("etcd: report: lease: %w", r.config.Client.explain(err))
	}
	// The context of the lease's requests outlives ctx: it is ended by the revocation.
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	w := &reportWriter{
		client: r.config.Client, etcd: etcd, node: r.config.Node, lease: lease.ID, last: &r.last,
		written: map[string]string{},
	}
	defer func() {
		if ctx.Err() == nil && r.last.lease == lease.ID {
			return // the next session finds the report, and so knows that the history is the same
		}
		revoking, cancel := context.WithTimeout(living, time.Second)
		defer cancel()
		_, _ = etcd.Revoke(revoking, lease.ID) // if that fails, it expires
	}()
	alive, err := etcd.KeepAlive(living, lease.ID)
	if err != nil {
		return fmt.Errorf("etcd: report: lease: %w", r.config.Client.explain(err))
	}
	return r.follow(ctx, w, alive, retry)
}

// follow writes each report, until the lease is lost or ctx done.
func (r *Reporter) follow(
	ctx context.Context, w *reportWriter, alive <-chan *clientv3.LeaseKeepAliveResponse, retry *backOff,
) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	look := time.NewTicker(r.config.TTL / 3)
	defer look.Stop()
	ready, due := false, true // a new lease has nothing written
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-alive:
			if !ok {
				return errors.New("etcd: report: the lease is lost")
			}
		case <-pause.C:
			ready = true
		case <-look.C:
			due = true
		case <-r.wake:
			due = true
		}
		if !due || !ready {
			continue
		}
		if report := r.latest(); report != nil {
			if err := w.write(ctx, *report); err != nil {
				return err
			}
			retry.reset()
		}
		ready, due = false, false
		pause.Reset(r.config.Interval)
	}
}

func (r *Reporter) latest() *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report
}

// endpointStatus reads endpoints/<node>/<Kind>/<namespace>/<name>.
func endpointStatus(rel string, value []byte) (node string, key policy.Key, status EndpointStatus, err error) {
	node, rest, ok := strings.Cut(strings.TrimPrefix(rel, partEndpoints), "/")
	if !ok {
		return "", policy.Key{}, status, errors.New("not of the form <node>/<Kind>/<namespace>/<name>")
	}
	if key, err = parsePath(rest); err != nil {
		return "", policy.Key{}, status, err
	}
	return node, key, status, decodeValue(value, &status, "state", "problem", "generation")
}
