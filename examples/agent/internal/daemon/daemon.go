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
	"github.com/wayleave/wayleave/dataplane/nft/nflog"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/cluster"
	"github.com/wayleave/wayleave/examples/agent/internal/health"
	"github.com/wayleave/wayleave/examples/agent/internal/kube"
	"github.com/wayleave/wayleave/examples/agent/internal/memory"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/policy"
)

// Config configures a Daemon.
type Config struct {
	// Below and Above are settings with lower and with higher precedence than the settings in the
	// datastore. In each list, later layers take precedence over earlier ones.
	Below, Above []settings.Layer
	// Reread is a channel. Each time that the caller has read the settings again, it sends new
	// layers. They replace the layers of the field Below. If the new settings are invalid, the
	// problems are in the log and in the status, and the previous settings stay in effect.
	// Optional.
	Reread <-chan []settings.Layer
	// NetNS is a file descriptor of the network namespace to program. 0 means the namespace of the
	// process.
	NetNS int
	// Etcd is a client of an etcd that nodes share. The Daemon reads objects and settings from
	// etcd, and reports the applied revision to it. The caller closes the client. Nil means that
	// there is no etcd.
	Etcd *etcd.Client
	// Kubernetes has clients of the Kubernetes API, from which the Daemon reads objects and
	// settings. Nil means that the API is not read.
	Kubernetes *kube.Clients
	// Sources returns further sources of desired state, for example one of your own. It is called
	// for each pipeline. Optional.
	Sources func(settings.Settings) ([]datastore.NamedSource, error)
	// Memory is the memory limit of the process. If the process exceeds it before the first rules
	// or routes are written, Run ends with a *memory.ExceededError. The default is no limit.
	Memory memory.Limit
	// Exceeded is called with the *memory.ExceededError before Run ends. To end at once, exit the
	// process in Exceeded: Run waits for computations in progress before it returns. Optional.
	Exceeded func(error)
	// Programmed is called after each attempt to program; it must not block. Optional.
	Programmed func(pipeline.State)
	// Log receives the log. Nil means no log.
	Log io.Writer
}

// Daemon is the state of a run. It is safe for concurrent use.
type Daemon struct {
	cfg      Config
	local    *settings.Effective // at the start, without settings of the datastore
	level    *slog.LevelVar
	logger   *slog.Logger
	registry *registered // nil if nothing can be registered
	stored   *stored
	cluster  *cluster.Cluster // nil if there is none
	kube     *kube.API        // nil if there is none
	events   *hub
	taps     *taps
	flows    *flowCounter
	health   *health.Checker
	started  time.Time
	gate     *startGate
	inSync   *milestone // the first complete state is in the kernel
	// encryption is the state that wireguardStatus returns.
	encryption wireguardState
	// watchLimit is Memory.Watch.
	watchLimit func(context.Context) error

	rejected, restarts, closedConns atomic.Uint64

	verifying sync.Mutex // held by verify

	resolving    sync.Mutex // held while the effective settings are computed
	below, above []settings.Layer

	mu         sync.Mutex
	effective  *settings.Effective
	problems   []string // with the datastore's settings
	unread     []string // with the settings that were last read again
	pipeline   *pipeline.Pipeline
	outdate    func()                  // ends the pipeline, so that a new one starts; nil before the first
	replaced   chan struct{}           // closed and replaced when there is another pipeline
	table      func() *ruleset.Table   // nil before the first attempt
	ruleCaches map[*ruleCache]struct{} // of clients that follow verdicts
	recording  recordingState
}

// Run runs the agent until ctx is done. The kernel then stays as it is.
func Run(ctx context.Context, cfg Config) error {
	d, err := newDaemon(cfg)
	if err != nil {
		return err
	}
	return d.run(ctx)
}

func (d *Daemon) run(ctx context.Context) error {
	servers, silence, err := d.listen(ctx)
	if err != nil {
		return err
	}
	defer silence()
	defer d.taps.close()
	if err := d.openRegistry(); err != nil {
		return err
	}
	tasks := append(servers, d.health.Run, d.reread, d.watchMemory)
	if d.cluster != nil {
		tasks = append(tasks, d.cluster.Run)
	}
	if d.kube != nil {
		tasks = append(tasks, d.kube.Run)
	}
	if !d.local.Wireguard {
		tasks = append(tasks, d.newWireguardRemoval().run)
	}
	if d.local.Manifests == "" {
		d.stored.setComplete()
	} else {
		source, err := d.stored.source(d.local.Manifests)
		if err != nil {
			return err
		}
		tasks = append(tasks, func(ctx context.Context) error { return source.Run(ctx, d.stored) })
	}
	err = pipeline.Together(ctx, append(tasks, d.supervise)...)
	if err == nil {
		d.logger.Info("ended; the kernel is left unchanged")
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
		cfg: cfg, below: cfg.Below, above: cfg.Above, local: local, effective: local, level: &slog.LevelVar{},
		events: newHub(), flows: newFlowCounter(), ruleCaches: map[*ruleCache]struct{}{}, started: time.Now(),
		gate: newStartGate(), inSync: newMilestone(), replaced: make(chan struct{}),
		watchLimit: func(ctx context.Context) error { return cfg.Memory.Watch(ctx, 0) },
	}
	d.taps = newTaps(func(ctx context.Context, group uint16, started func(), do func(nflog.Entry) error) error {
		return nflog.Follow(ctx, nflog.Config{Group: group, NetNS: cfg.NetNS, Started: started}, do)
	})
	d.level.Set(local.LogLevel)
	d.logger = slog.New(slog.NewTextHandler(cfg.Log, &slog.HandlerOptions{Level: d.level}))
	d.stored = newStored(local.Node, d.resolve, func(cause error) {
		d.logger.Error("waiting for a directory; nothing is programmed until it exists",
			"source", pipeline.SourceManifests, "err", cause)
	})
	if cfg.Etcd != nil {
		if d.cluster, err = cluster.New(cluster.Config{
			Client: cfg.Etcd, Node: local.Node, Settings: d.stored.share, Rejected: d.reject, Logger: d.logger,
		}); err != nil {
			return nil, err
		}
	}
	if cfg.Kubernetes != nil {
		if d.kube, err = kube.New(kube.Config{
			Clients: cfg.Kubernetes, Node: local.Node, Omit: local.OmittedKinds(),
			PodCIDRs: local.KubernetesPodCIDRs, VXLAN: local.KubernetesVXLAN, IPIP: local.KubernetesIPIP,
			Wireguard:        local.Wireguard,
			TrustAnnotations: local.TrustAnnotations, Rejected: d.reject, Logger: d.logger,
			ConfigMap: local.KubernetesConfig, Report: local.KubernetesReport,
			Settings: func(all, node []settings.Layer) { d.stored.share(cluster.Layers{Global: all, Node: node}) },
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
	case <-d.stored.ready: // now the settings of the datastore are known
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		restart, err := d.once(ctx)
		if !restart {
			return err
		}
		d.restarts.Add(1)
		d.logger.Info("settings have changed: restarting; the kernel is left unchanged")
		d.events.publish("settings", "", "settings have changed: restarting")
	}
}

// errOutdated ends a pipeline that must restart with new settings.
var errOutdated = errors.New("daemon: settings have changed")

// once runs a pipeline until it ends or must restart.
func (d *Daemon) once(ctx context.Context) (restart bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	record, done := d.record()
	defer done()
	p, s, err := d.open(record, func() { cancel(errOutdated) })
	if err != nil {
		return false, err
	}
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { d.publishEndpoints(ctx, p) })
	if s.Flows {
		others.Go(func() { d.countFlows(ctx, p) })
	}
	if d.cluster != nil {
		others.Go(func() { d.cluster.Follow(ctx, p) })
	}
	if d.kube != nil {
		others.Go(func() { d.kube.Follow(ctx, p) })
	}
	err = p.Run(ctx)
	if err == nil && ctx.Err() == nil {
		err = errors.New("daemon: a source has ended")
	}
	cancel(nil)
	return errors.Is(context.Cause(ctx), errOutdated), err
}

// open returns a pipeline for the current settings, and these settings. The pipeline writes its
// input to record, unless record is nil. When the settings change, the Daemon calls outdate.
func (d *Daemon) open(record io.Writer, outdate func()) (p *pipeline.Pipeline, s settings.Settings, err error) {
	d.mu.Lock()
	s = d.effective.Settings
	previous := d.pipeline
	d.outdate = outdate
	d.mu.Unlock()
	var sources []datastore.NamedSource
	if d.kube != nil {
		// The API comes before registered endpoints, so that the labels of a pod in the API take
		// precedence over labels of a registration.
		sources = append(sources, datastore.NamedSource{Name: kube.Name, Source: d.kube.Source()})
	}
	if d.registry != nil {
		sources = append(sources, datastore.NamedSource{Name: sourceRegistered, Source: d.registry, Yields: true})
	}
	if d.cluster != nil {
		sources = append(sources, datastore.NamedSource{Name: cluster.Name, Source: d.cluster.Source()})
	}
	if d.cfg.Sources != nil {
		more, err := d.cfg.Sources(s)
		if err != nil {
			return nil, s, err
		}
		sources = append(sources, more...)
	}
	cfg := pipeline.FromSettings(s)
	cfg.Sources, cfg.Previous, cfg.NetNS = sources, previous, d.cfg.NetNS
	cfg.Wireguard = d.wireguardConfig(s)
	cfg.Filter, cfg.Logger = withoutSettings, d.logger
	cfg.Programmed, cfg.Drifted, cfg.Rejected = d.programmed, d.drifted, d.reject
	cfg.Absent, cfg.Doubted, cfg.Updated = d.absent, d.doubted, d.updated
	cfg.Record, cfg.RecordFailed, cfg.BeforeWrite = record, d.recordFailed, d.gate.allowWrite
	if p, err = pipeline.New(cfg); err != nil {
		return nil, s, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pipeline, d.table = p, nil
	close(d.replaced)
	d.replaced = make(chan struct{})
	return p, s, nil
}

// withoutSettings removes the settings from a file of manifests. The pipeline gets the rest.
func withoutSettings(file string, data []byte) []byte {
	_, rest := settings.Extract(file, data)
	return rest
}

func (d *Daemon) programmed(s pipeline.State) {
	d.mu.Lock()
	d.table = s.Table // a method value, so that the table is copied only for a request
	d.mu.Unlock()
	if s.InSync {
		d.inSync.reach()
	}
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
	d.events.publish("drift", drift.Object, driftText(drift))
}

// driftText describes a drift. The backend of routes does not report which interface has changed.
func driftText(drift dataplane.Drift) string {
	switch {
	case drift.Process != "":
		return "changed by " + drift.Process
	case drift.Backend == backendRoutes && !drift.Foreign:
		return "changed: an interface of an endpoint was added, removed or changed; see the 'endpoint' events"
	}
	return "changed"
}

// backendRoutes is the name of the backend of package routes.
const backendRoutes = "routes"

// absent reports an object that the graph rejects.
func (d *Daemon) absent(key policy.Key, err error) {
	if d.kube != nil {
		d.kube.Absent(key, err)
	}
}

func (d *Daemon) doubted(key policy.Key, doubt *policy.DoubtError) {
	if d.kube != nil {
		d.kube.Doubted(key, doubt)
	}
	text := "nothing is in doubt any more"
	if doubt != nil {
		text = doubt.Error()
	}
	d.events.publish("doubt", key.String(), text)
}

func (d *Daemon) reject(err error) {
	d.rejected.Add(1)
	d.events.publish("rejected", "", err.Error())
}

// publishEndpoints publishes every change of an endpoint until ctx is done or the driver has
// stopped.
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

// current returns the current pipeline; nil before the first.
func (d *Daemon) current() *pipeline.Pipeline {
	p, _ := d.latest()
	return p
}

// waitOn calls wait with a pipeline. If the pipeline ends because settings have changed, it calls
// wait with the next pipeline.
func (d *Daemon) waitOn(ctx context.Context, p *pipeline.Pipeline, wait func(*pipeline.Pipeline) error) error {
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

// next returns the pipeline that replaces one that has ended.
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

// latest returns the current pipeline (nil before the first), and a channel that is closed when the
// pipeline is replaced.
func (d *Daemon) latest() (*pipeline.Pipeline, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pipeline, d.replaced
}
