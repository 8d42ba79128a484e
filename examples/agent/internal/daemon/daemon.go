// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/cluster"
	"github.com/wayleave/wayleave/examples/agent/internal/health"
	"github.com/wayleave/wayleave/examples/agent/internal/nflog"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
)

// Config of a Daemon. It is a plain value.
type Config struct {
	// Below and Above are the settings that the datastore's come over, and that come over the datastore's; the later over the
	// earlier.
	Below, Above []settings.Layer
	// Reread has what takes the place of Below, each time that has been read again. Settings that make no sense are in the log and
	// the status, and the ones before go on counting. Optional.
	Reread <-chan []settings.Layer
	// NetNS is a file descriptor of the network namespace to program. 0 means that of the process.
	NetNS int
	// Etcd is a client of the store that nodes share: objects and settings are read from it, and what is in force is reported to
	// it. It is the caller's to close. Nil: there is none.
	Etcd *etcd.Client
	// Sources makes more sources of desired state: the place for one of your own. Optional.
	Sources func(settings.Settings) ([]pipeline.NamedSource, error)
	// Programmed is called after each attempt to program; it must not block. Optional.
	Programmed func(pipeline.State)
	// Log is where to log. Nil discards.
	Log io.Writer
}

// Daemon is the state of a run. It is safe for concurrent use.
type Daemon struct {
	cfg      Config
	local    *settings.Effective // at the start, without the datastore's
	level    *slog.LevelVar
	logger   *slog.Logger
	registry *registered // nil if nothing can be registered
	stored   *stored
	cluster  *cluster.Cluster // nil if there is none
	events   *hub
	taps     *taps
	health   *health.Checker
	started  time.Time
	changed  chan struct{} // holds a token when the pipeline is to restart

	rejected, restarts atomic.Uint64

	deciding     sync.Mutex // held while it is worked out which settings count
	below, above []settings.Layer

	mu        sync.Mutex
	effective *settings.Effective
	problems  []string // with the datastore's settings
	unread    []string // with the settings that were last read again
	pipeline  *pipeline.Pipeline
	replaced  chan struct{}          // closed and replaced when there is another pipeline
	table     func() *ruleset.Table  // nil before the first attempt
	books     map[*ruleBook]struct{} // of those who follow verdicts
	recording recordingState
}

// Run runs the agent until ctx is done. The kernel then stays as it is.
func Run(ctx context.Context, cfg Config) error {
	d, err := newDaemon(cfg)
	if err != nil {
		return err
	}
	servers, silence, err := d.listen()
	if err != nil {
		return err
	}
	defer silence()
	defer d.taps.close()
	if err := d.openRegistry(); err != nil {
		return err
	}
	tasks := append(servers, d.health.Run, d.reread)
	if d.cluster != nil {
		tasks = append(tasks, d.cluster.Run)
	}
	if d.local.Manifests == "" {
		d.stored.settle()
	} else {
		source, err := d.stored.source(d.local.Manifests)
		if err != nil {
			return err
		}
		tasks = append(tasks, func(ctx context.Context) error { return source.Run(ctx, d.stored) })
	}
	err = pipeline.Together(ctx, append(tasks, d.supervise)...)
	if err == nil {
		d.logger.Info("ended; the kernel stays as it is")
	}
	return err
}

func newDaemon(cfg Config) (*Daemon, error) {
	local, err := settings.Resolve(append(append([]settings.Layer{}, cfg.Below...), cfg.Above...)...)
	if err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	d := &Daemon{
		cfg: cfg, below: cfg.Below, above: cfg.Above, local: local, effective: local, level: &slog.LevelVar{}, events: newHub(), books: map[*ruleBook]struct{}{},
		started: time.Now(), changed: make(chan struct{}, 1), replaced: make(chan struct{}),
	}
	d.taps = newTaps(func(ctx context.Context, group uint16, do func(nflog.Entry) error) error {
		return nflog.Follow(ctx, nflog.Config{Group: group, NetNS: cfg.NetNS}, do)
	})
	d.level.Set(local.LogLevel)
	d.logger = slog.New(slog.NewTextHandler(cfg.Log, &slog.HandlerOptions{Level: d.level}))
	d.stored = newStored(local.Node, d.reconsider)
	if cfg.Etcd != nil {
		if d.cluster, err = cluster.New(cluster.Config{
			Client: cfg.Etcd, Node: local.Node, Settings: d.stored.share, Rejected: d.reject, Logger: d.logger,
		}); err != nil {
			return nil, err
		}
	}
	d.health = health.New(health.Config{Timeout: local.HealthTimeout, Components: d.components()})
	return d, nil
}

// supervise runs one pipeline after the other.
func (d *Daemon) supervise(ctx context.Context) error {
	select {
	case <-d.stored.ready: // the first pipeline has the datastore's settings already
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		restart, err := d.once(ctx)
		if !restart {
			return err
		}
		d.restarts.Add(1)
		d.logger.Info("settings have changed: starting anew; the kernel stays as it is")
		d.events.publish("settings", "", "settings have changed: starting anew")
	}
}

// once runs a pipeline until it ends or is to start anew.
func (d *Daemon) once(ctx context.Context) (restart bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case <-d.changed: // what is there by now is what counts
	default:
	}
	record, done := d.record()
	defer done()
	p, err := d.open(record)
	if err != nil {
		return false, err
	}
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { d.publishEndpoints(ctx, p) })
	if d.cluster != nil {
		others.Go(func() { d.cluster.Follow(ctx, p) })
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	select {
	case err := <-ended:
		if err == nil && ctx.Err() == nil {
			err = errors.New("daemon: a source has ended")
		}
		cancel()
		return false, err
	case <-d.changed:
		cancel()
		return true, <-ended
	}
}

// open makes a pipeline for the settings as they are. What it sees it records, unless record is nil.
func (d *Daemon) open(record io.Writer) (*pipeline.Pipeline, error) {
	d.mu.Lock()
	s := d.effective.Settings
	d.mu.Unlock()
	var sources []pipeline.NamedSource
	if d.registry != nil {
		sources = append(sources, pipeline.NamedSource{Name: sourceRegistered, Source: d.registry})
	}
	if d.cluster != nil {
		sources = append(sources, pipeline.NamedSource{Name: cluster.Name, Source: d.cluster.Source()})
	}
	if d.cfg.Sources != nil {
		more, err := d.cfg.Sources(s)
		if err != nil {
			return nil, err
		}
		sources = append(sources, more...)
	}
	p, err := pipeline.New(pipeline.Config{
		Manifests: s.Manifests, Resources: s.Resources, Sources: sources, Node: s.Node, NetNS: d.cfg.NetNS,
		Table: s.Table, InterfacePrefix: s.InterfacePrefix, TrustAnnotations: s.TrustAnnotations, ForwardIPv6: s.ForwardIPv6,
		ApplyInterval: s.ApplyInterval, ApplyBurst: s.ApplyBurst, ResyncInterval: s.ResyncInterval,
		VerdictLog: nft.VerdictLog{Enabled: s.VerdictLogGroup >= 0, Group: uint16(max(s.VerdictLogGroup, 0))},
		Classes:    nft.ClassesConfig{Disabled: s.PolicyAsChains},
		Filter:     withoutSettings, Logger: d.logger, Programmed: d.programmed, Drifted: d.drifted, Rejected: d.reject,
		Updated: d.updated, Record: record, RecordFailed: d.recordFailed,
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pipeline, d.table = p, nil
	close(d.replaced)
	d.replaced = make(chan struct{})
	return p, nil
}

// withoutSettings leaves of a file what is for the pipeline.
func withoutSettings(file string, data []byte) []byte {
	_, rest := settings.Extract(file, data)
	return rest
}

func (d *Daemon) programmed(s pipeline.State) {
	d.mu.Lock()
	d.table = s.Table // a function: nothing is copied until somebody asks
	d.mu.Unlock()
	text := s.Duration.String()
	if s.Err != nil {
		text += ": " + s.Err.Error()
	}
	d.events.publish("applied", "", text)
	if d.cfg.Programmed != nil {
		d.cfg.Programmed(s)
	}
}

func (d *Daemon) drifted(drift dataplane.Drift) {
	d.events.publish("drift", drift.Object, drift.String())
}

func (d *Daemon) reject(err error) {
	d.rejected.Add(1)
	d.events.publish("rejected", "", err.Error())
}

// publishEndpoints tells of every change of an endpoint until ctx is done or the driver has stopped.
func (d *Daemon) publishEndpoints(ctx context.Context, p *pipeline.Pipeline) {
	for c := range p.Driver().EndpointChanges(ctx) {
		text := c.Status.State.String()
		switch {
		case c.Removed:
			text = "removed"
		case c.Status.Err != nil:
			text += ": " + c.Status.Err.Error()
		}
		d.events.publish("endpoint", c.Key.String(), text)
	}
}

// current returns the pipeline, nil before the first.
func (d *Daemon) current() *pipeline.Pipeline {
	p, _ := d.latest()
	return p
}

// steadily has a pipeline waited for. Where it ends because settings have changed, the next one is.
func (d *Daemon) steadily(ctx context.Context, p *pipeline.Pipeline, wait func(*pipeline.Pipeline) error) error {
	for {
		err := wait(p)
		if !errors.Is(err, dataplane.ErrStopped) {
			return err
		}
		if p, err = d.next(ctx, p); err != nil {
			return err
		}
	}
}

// next returns the pipeline that takes the place of one that has ended.
func (d *Daemon) next(ctx context.Context, p *pipeline.Pipeline) (*pipeline.Pipeline, error) {
	for {
		now, replaced := d.latest()
		if now != p {
			return now, nil
		}
		select {
		case <-replaced:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// latest returns the pipeline, nil before the first, and a channel that is closed when there is another.
func (d *Daemon) latest() (*pipeline.Pipeline, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pipeline, d.replaced
}

// why returns a source's name and, if that is known, why it has not told all yet.
func (d *Daemon) why(source string) string {
	if source == cluster.Name && d.cluster != nil {
		if s := d.cluster.State(); s.Error != "" {
			return source + ": " + s.Error
		}
	}
	return source
}

// noteStore returns why the store that nodes share is away, if it is. That is no reason not to be ready: the node goes on by what
// it knows.
func (d *Daemon) noteStore() string {
	if d.cluster != nil {
		if s := d.cluster.State(); s.Error != "" {
			return cluster.Name + " is away, and what is known goes on counting: " + s.Error
		}
	}
	return ""
}

// components says what to look at to know whether the agent is well.
func (d *Daemon) components() []health.Component {
	with := func(ask func(*pipeline.Pipeline) string) func() string {
		return func() string {
			if p := d.current(); p != nil {
				return ask(p)
			}
			return "has not started yet"
		}
	}
	progress := func(ask func(*pipeline.Pipeline) (bool, uint64)) func() (bool, uint64) {
		return func() (bool, uint64) {
			if p := d.current(); p != nil {
				return ask(p)
			}
			return false, 0
		}
	}
	return []health.Component{
		{Name: "source", Ready: with(func(p *pipeline.Pipeline) string {
			if waiting := p.Waiting(); len(waiting) > 0 {
				return "has not been read to the end yet: " + d.why(waiting[0])
			}
			return ""
		}), Note: d.noteStore},
		{Name: "graph", Progress: progress(func(p *pipeline.Pipeline) (bool, uint64) {
			s := p.RunnerStats()
			return s.Pending > 0, s.Flushes + p.Driver().Stats().Attempts // a full queue is the driver's
		})},
		{
			Name: "driver",
			Ready: with(func(p *pipeline.Pipeline) string {
				s := p.Driver().Status()
				switch {
				case s.InSync:
					return ""
				case s.LastError != nil:
					return "nothing is in the kernel yet: " + s.LastError.Error()
				}
				return "nothing is in the kernel yet"
			}),
			Progress: progress(func(p *pipeline.Pipeline) (bool, uint64) {
				s := p.Driver().Stats() // an object that fails and is retried now and then is no reason to restart the agent
				return s.Applying, s.Attempts
			}),
		},
		{Name: "recording", Note: d.recordingNote},
	}
}
