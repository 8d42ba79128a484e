// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

// grace is how long the end of a pipeline waits for the transaction in progress.
const grace = 10 * time.Second

// Run programs the desired state of the sources, and every change of this state, until ctx is done.
// Then it completes the transaction in progress, and returns nil. The kernel state stays, and
// policy is still enforced. The next Run reads the kernel state and changes only the differences.
func Run(ctx context.Context, cfg Config) error {
	p, err := New(cfg)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// Pipeline connects the parts that read, compute and program the desired state. Its methods may be
// called from any goroutine. Run may be called only once.
type Pipeline struct {
	cfg    Config
	source *sources
	runner *calcgraph.Runner
	driver *dataplane.Driver
	rounds rounds
	dirs   map[string]*directory // by the name of the source
	kernel *kernel               // nil if Config.Sockets is set
	remote *remote               // nil unless Config.Sockets is set
	server *policysync.Server    // nil unless Config.PolicySync is set

	interfaces *interfaceIndex
	conflicts  *conflicts
	ended      chan struct{} // closed when Run ends

	rejected rejections
	doubts   doubts
	lines    doubtLines
}

// New returns a Pipeline. It opens sockets, so call Run afterwards: only Run closes them. New does
// not change the kernel state.
//
// Errors: the configuration is invalid; a file or socket cannot be opened.
func New(cfg Config) (*Pipeline, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	previous := cfg.Previous
	cfg.Previous = nil // nothing below may keep it
	p := &Pipeline{
		cfg: cfg, dirs: map[string]*directory{}, conflicts: newConflicts(), ended: make(chan struct{}),
	}
	p.interfaces = newInterfaceIndex(cfg.Node, cfg.Logger, func() (*interfaces.Snapshot, error) {
		return interfaces.Read(interfaces.Config{NetNS: cfg.NetNS})
	})

	// Desired state: files in directories, converted to resources, and other sources.
	list, err := p.sources(previous)
	if err != nil {
		return nil, err
	}
	if p.source, err = newSources(p.unionConfig(list), p.interfaces, p.conflict); err != nil {
		return nil, err
	}

	// Computation: resources in, batches of events for this node out.
	graphConfig := cfg.graph()
	graphConfig.Hooks = calcgraph.Hooks{
		Rejected: func(key policy.Key, err error) {
			cfg.Logger.Error("rejected, so absent", "object", key, "err", err)
			p.rejected.record(key)
			cfg.Rejected(err)
			cfg.Absent(key, err)
		},
		Doubt: func(key policy.Key, doubt *policy.DoubtError) {
			p.doubts.set(key, doubt)
			if at := p.lines.take(key, doubt); doubt != nil {
				cfg.Logger.Error("some rules are closed", "object", key, "at", strings.Join(at, ", "),
					"err", doubt)
			} else {
				cfg.Logger.Info("no longer in doubt", "object", key)
			}
			cfg.Doubted(key, doubt)
		},
	}
	graph, err := calcgraph.New(graphConfig)
	if err != nil {
		return nil, err
	}

	if cfg.Sockets != "" {
		p.remote, err = listen(cfg.Sockets, cfg.Logger)
	} else {
		p.kernel, err = openKernel(cfg)
	}
	if err != nil {
		return nil, err
	}
	if cfg.PolicySync != "" {
		p.server, err = policysync.NewServer(policysync.ServerConfig{
			Folder: cfg.PolicySync, NetNS: cfg.NetNS, Logger: cfg.Logger,
		})
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	if p.driver, err = dataplane.NewDriver(p.driverConfig()); err != nil {
		return nil, errors.Join(err, p.close())
	}

	// While the driver's queue is full, the runner merges the updates of the sources.
	p.runner, err = calcgraph.NewRunner(calcgraph.RunnerConfig{
		Graph: graph, Out: p.driver.Send, Record: cfg.Record,
		Hooks: calcgraph.RunnerHooks{RecordFailed: cfg.RecordFailed},
	})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *Pipeline) unionConfig(list []datastore.NamedSource) datastore.UnionConfig {
	cfg, prefix := p.cfg, newPrefixCheck(p.cfg)
	return datastore.UnionConfig{
		Sources: list,
		Updated: func(updates []policy.Update) {
			for _, u := range updates {
				if u.Resource == nil {
					p.rejected.remove(u.Key)
				}
			}
			prefix.check(updates)
			cfg.Updated(updates)
		},
		Overruled: func(source string, key policy.Key, used string) {
			cfg.Logger.Error("rejected: another source has it", "source", source, "object", key, "used", used)
			cfg.Rejected(errors.New(source + ": " + key.String() + " is in " + used + " already"))
		},
	}
}

// conflict reports that an endpoint is absent because its interface belongs to another one. If err
// is nil, it reports that the endpoint is no longer absent.
func (p *Pipeline) conflict(key policy.Key, err error) {
	if p.conflicts.wake(); err == nil {
		p.cfg.Logger.Info("no longer rejected: no other endpoint has its interface", "object", key)
		return
	}
	p.cfg.Logger.Error("rejected, so absent", "object", key, "err", err)
	p.cfg.Rejected(fmt.Errorf("%s: %w", key, err))
}

func (p *Pipeline) driverConfig() dataplane.DriverConfig {
	inSync := false
	return dataplane.DriverConfig{
		Dataplanes:  p.dataplanes(),
		MinInterval: p.cfg.ApplyInterval,
		Burst:       p.cfg.ApplyBurst,
		ResyncEvery: p.cfg.ResyncInterval,
		Logger:      p.cfg.Logger,
		Hooks: dataplane.Hooks{
			Applied: func(info dataplane.AppliedInfo) {
				p.rounds.ended()
				inSync = inSync || p.driver.Status().InSync
				p.cfg.Programmed(State{
					Rules: p.rules(), Time: time.Now(), Duration: info.Duration, Events: info.Events,
					InSync: inSync, Err: info.Err,
				})
			},
			Drifted: p.cfg.Drifted,
		},
	}
}

// dataplanes returns the dataplanes in the order in which they are called. The policysync.Server
// comes last, so that processes in workloads receive a change only once the kernel enforces it.
func (p *Pipeline) dataplanes() (list []dataplane.Dataplane) {
	if p.remote != nil {
		list = p.remote.dataplanes()
	} else {
		list = p.kernel.dataplanes()
	}
	if p.server != nil {
		list = append(list, p.server)
	}
	return list
}

// rules returns State.Rules.
func (p *Pipeline) rules() func() *ruleset.Table {
	if p.remote != nil {
		return nil
	}
	return p.kernel.table.Table
}

// Run runs the pipeline; see the function of that name.
func (p *Pipeline) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, p.close()) }()
	defer close(p.ended)
	driven, end := context.WithCancel(context.WithoutCancel(ctx)) // until the driver has finished
	tasks := []func(context.Context) error{
		func(ctx context.Context) error {
			defer end()
			return p.drive(ctx)
		},
		p.runner.Run,
		func(ctx context.Context) error { return p.source.Run(ctx, p.runner) },
	}
	if p.remote != nil {
		tasks = append(tasks, func(context.Context) error { return p.remote.serve(driven) })
	}
	return Together(ctx, tasks...)
}

// drive runs the driver. When ctx is done, the driver completes the batch in progress.
func (p *Pipeline) drive(ctx context.Context) error {
	whole := context.WithoutCancel(ctx)
	stop := context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(whole, grace)
		defer cancel()
		_ = p.driver.Shutdown(limited) // after the error of its context, driver.Run ends as well
	})
	defer stop()
	if err := p.driver.Run(whole); err != nil {
		return err
	}
	return ctx.Err()
}

// close closes the dataplanes that New opened.
func (p *Pipeline) close() (err error) {
	if p.server != nil {
		err = p.server.Close()
	}
	if p.remote != nil {
		return errors.Join(err, p.remote.close())
	}
	return errors.Join(err, p.kernel.close())
}

// Together runs all functions until the first of them ends or ctx is done. Then it cancels their
// context, and waits for all of them. It returns nil if ctx is done, and otherwise the error of the
// function that ended first.
func Together(ctx context.Context, tasks ...func(context.Context) error) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error)
	for _, task := range tasks {
		go func() { ended <- task(inner) }()
	}
	var first error
	for range tasks {
		err := <-ended
		if first == nil && inner.Err() == nil {
			first = err // the others end because of this one
		}
		cancel()
	}
	if ctx.Err() != nil {
		return nil
	}
	return first
}

// Names of the sources that are directories.
const (
	SourceManifests = "manifests"
	SourceResources = "resources"
)

// sources opens the directories, and returns them with Config.Sources.
func (p *Pipeline) sources(previous *Pipeline) ([]datastore.NamedSource, error) {
	var sources []datastore.NamedSource
	add := func(name, path string, cfg datastore.DirConfig) error {
		if path == "" {
			return nil
		}
		cfg.Path = path
		cfg.Rejected = func(file string, err error) { p.cfg.rejected(name, file, err) }
		cfg.Unreadable = func(cause error) {
			if cause == nil {
				p.cfg.Logger.Info("the directory can be read again", "source", name)
			}
		}
		var before *packed.Objects
		if previous != nil {
			before = previous.directory(name)
		}
		dir, err := newDirectory(cfg, before)
		if err == nil {
			p.dirs[name] = dir
			sources = append(sources, datastore.NamedSource{Name: name, Source: dir})
		}
		return err
	}
	decode := func(file string, data []byte) ([]policy.Resource, []error) {
		resources, problems := p.cfg.decode(file, data)
		return resources, p.lines.record(resources, problems)
	}
	err := errors.Join(
		add(SourceManifests, p.cfg.Manifests, datastore.DirConfig{Extensions: manifest.Extensions(), Decode: decode}),
		add(SourceResources, p.cfg.Resources, datastore.DirConfig{}),
	)
	return append(sources, p.cfg.Sources...), err
}

// decode turns a file of manifests into resources.
func (c Config) decode(file string, data []byte) ([]policy.Resource, []error) {
	return c.reader().Decode(file, c.Filter(file, data))
}

// reader returns the reader of manifests.
func (c Config) reader() manifest.Reader {
	return manifest.Reader{Converter: convert.Converter{TrustAnnotations: c.TrustAnnotations}}
}

// graph returns the configuration of the calculation graph, without hooks.
func (c Config) graph() calcgraph.Config {
	return calcgraph.Config{Node: c.Node, UnreachableRoutes: c.Wireguard != nil}
}

// renderer returns the configuration of the renderer.
func (c Config) renderer() render.Config {
	return render.Config{
		Table: c.Table, InterfacePrefix: c.InterfacePrefix, VerdictLog: c.VerdictLog,
		TCPFromSYN: c.TCPFromSYN, Bridges: c.Bridges, NAT: render.NATConfig{ExcludeNodes: c.NATExcludeNodes},
		Host: policy.HostConfig{
			EndpointToHostAction: c.EndpointToHost,
			VXLANFromNodesOnly:   c.VXLANFromNodesOnly, IPIPFromNodesOnly: c.IPIPFromNodesOnly,
		},
	}
}

// routes returns the configuration of the dataplane of routes.
func (c Config) routes() routes.Config {
	return routes.Config{
		NetNS: c.NetNS, Protocol: c.RouteProtocol, ForwardAllIPv6: c.ForwardIPv6, SysctlFile: c.SysctlFile,
		Bridges: c.Bridges, Logger: c.Logger,
	}
}

// directoryItself is the file that datastore.Dir names if the whole directory cannot be read.
const directoryItself = "."

// rejected logs the parts of a file that have no effect.
func (c Config) rejected(source, file string, err error) {
	if errors.Is(err, convert.ErrIgnored) {
		c.Logger.Debug("no effect on policy", "file", file, "err", err)
		return
	}
	c.Rejected(err)
	var where *manifest.Error
	switch {
	case file == directoryItself:
		c.Logger.Error("the directory cannot be read", "source", source, "err", err)
		return
	case !errors.As(err, &where):
		c.Logger.Error("rejected", "source", source, "file", file, "err", err)
		return
	}
	c.Logger.LogAttrs(context.Background(), slog.LevelError, "rejected", slog.String("file", file),
		slog.Int("document", where.Document), slog.Int("line", where.Line),
		slog.String("object", where.Object.String()), slog.String("field", where.Field), slog.Any("err", where.Err))
}
