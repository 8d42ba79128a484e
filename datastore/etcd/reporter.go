// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/policy"
)

// ReporterConfig configures a Reporter. The Reporter does not change it.
type ReporterConfig struct {
	// Client that writes the reports. Required.
	Client *Client
	// Node is the name of this node. Required; 1 to 265 letters, digits and -_.:@+~. Two Reporters
	// with the same Node overwrite each other's reports, and both call Lost repeatedly.
	Node string
	// TTL is the time, in whole seconds, after which a report expires if its node no longer renews
	// it. While it runs, the Reporter reads its report from the store every third of the TTL. If
	// the servers have elected a leader since the last write, the Reporter then writes the report
	// again. Default: 30 s; minimum 2 s.
	TTL time.Duration
	// Interval is the minimum time between two writes. If Set is called several times in between,
	// only the last report is written. Default: 200 ms.
	Interval time.Duration
	// MaxBackOff is the maximum pause between two attempts after a failure. Default: 5 s.
	MaxBackOff time.Duration
	// Lost is called from the goroutine of Run with the error of each failed attempt to report.
	// Optional.
	Lost func(err error)
}

func (c ReporterConfig) withDefaults() ReporterConfig {
	c.TTL = cmp.Or(c.TTL, 30*time.Second)
	c.Interval = cmp.Or(c.Interval, 200*time.Millisecond)
	c.MaxBackOff = cmp.Or(c.MaxBackOff, 5*time.Second)
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
	if err := checkSegment("ReporterConfig.Node", c.Node); err != nil {
		errs = append(errs, err)
	}
	if c.TTL < 2*time.Second || c.TTL%time.Second != 0 {
		errs = append(errs, errors.New("etcd: ReporterConfig.TTL: want whole seconds, at least 2"))
	}
	if c.Interval < 0 || c.MaxBackOff < 0 {
		errs = append(errs, errors.New("etcd: ReporterConfig.Interval and MaxBackOff: must not be negative"))
	}
	return errors.Join(errs...)
}

// Reporter writes the revision that a node has applied, and the status of its endpoints, to the
// store. The keys have a lease. If the node no longer renews the lease, the store deletes the keys.
//
// A revision means nothing without its History, which identifies the data that a Source has read.
// The store may lose this data, for example by a restore. The Reporter then leaves out the
// revision, and reports that the node is not in sync.
//
// Give the Reporter and the Source the same Client. The etcd user of this Client needs the right to
// read the keys below state/. The Reporter checks the mark there, which is the key that Store.Init
// creates.
//
// Set is safe for concurrent use. Only one call of Run may be active at a time.
type Reporter struct {
	config ReporterConfig

	mu      sync.Mutex
	running bool
	report  *Report       // the last argument of Set
	wake    chan struct{} // holds a token after Set
	last    lastReport    // used by the goroutine of Run
}

// NewReporter returns a Reporter. It sends no request before Run. Errors: an invalid configuration.
func NewReporter(cfg ReporterConfig) (*Reporter, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Reporter{config: cfg, wake: make(chan struct{}, 1)}, nil
}

// Set replaces the report. It does not wait until the report is written. Do not change the maps of
// the report afterwards.
func (r *Reporter) Set(report Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report = &report
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run writes reports until ctx is done. Then it deletes the node's reports, and returns the error
// of ctx. If the store fails, Run calls Lost and retries. A second call during the first returns
// ErrRunning.
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

// session writes reports with one lease until the lease is lost.
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
	// Requests of the lease use another context, which ends after the lease is revoked.
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	w := &reportWriter{
		client: r.config.Client, etcd: etcd, node: r.config.Node, lease: lease.ID, last: &r.last,
		written: map[string]string{},
	}
	defer func() {
		if ctx.Err() == nil && r.last.lease == lease.ID {
			return // keep the report: the next session reads it to check the history
		}
		revoking, cancel := context.WithTimeout(living, time.Second)
		defer cancel()
		_, _ = etcd.Revoke(revoking, lease.ID) // if this fails, the lease expires
	}()
	alive, err := etcd.KeepAlive(living, lease.ID)
	if err != nil {
		return fmt.Errorf("etcd: report: lease: %w", r.config.Client.explain(err))
	}
	return r.follow(ctx, w, alive, retry)
}

// follow writes each report, until the lease is lost or ctx is done.
func (r *Reporter) follow(
	ctx context.Context, w *reportWriter, alive <-chan *clientv3.LeaseKeepAliveResponse, retry *backOff,
) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	look := time.NewTicker(r.config.TTL / 3)
	defer look.Stop()
	ready, due := false, true // a new lease has no keys
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

// endpointStatus parses a key endpoints/<node>/<Kind>/<namespace>/<name> and its value.
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
