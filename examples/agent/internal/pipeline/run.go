// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

// Run programs what the manifests say, and every change of them, until ctx is done. It then returns nil
// and leaves the kernel as it is, so that packets are judged as before and the next Run
// finds what this one left.
func Run(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}

	// Desired state: files in a directory, turned into resources.
	source, err := datastore.NewDir(datastore.DirConfig{
		Path:       cfg.Manifests,
		Extensions: manifest.Extensions(),
		Decode:     cfg.reader().Decode,
		Rejected:   func(file string, err error) { logRejected(cfg.Logger, file, err) },
	})
	if err != nil {
		return err
	}

	// Computation: resources in, batches of events for this node out.
	graph, err := calcgraph.New(calcgraph.Config{
		Node: cfg.Node,
		Hooks: calcgraph.Hooks{Rejected: func(key policy.Key, err error) {
			cfg.Logger.Error("rejected, so absent", "object", key, "err", err)
		}},
	})
	if err != nil {
		return err
	}

	// The kernel: policy first, so that no endpoint has a route before it has its policy.
	rules, err := nft.New(nft.Config{Renderer: cfg.renderer(), NetNS: cfg.NetNS, Logger: cfg.Logger})
	if err != nil {
		return err
	}
	defer func() { _ = rules.Close() }()
	ways, err := routes.New(routes.Config{Namespace: cfg.NetNS, ForwardAllIPv6: cfg.ForwardIPv6, Logger: cfg.Logger})
	if err != nil {
		return err
	}
	defer func() { _ = ways.Close() }()
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{
		Dataplanes: []dataplane.Dataplane{rules, ways},
		Logger:     cfg.Logger,
		Hooks: dataplane.Hooks{Applied: func(info dataplane.AppliedInfo) {
			cfg.Programmed(State{Table: rules.Table(), Time: time.Now(), Events: info.Events, Err: info.Err})
		}},
	})
	if err != nil {
		return err
	}

	// While the driver is busy the runner coalesces what the source says.
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{Graph: graph, Out: driver.Send})
	if err != nil {
		return err
	}
	return together(ctx,
		driver.Run,
		runner.Run,
		func(ctx context.Context) error { return source.Run(ctx, runner) },
		func(ctx context.Context) error { // errors of a resync are retried and logged by the driver
			return ways.Watch(ctx, func() { _ = driver.Resync(ctx) })
		},
	)
}

// together runs all functions until the first of them fails or ctx is done, and waits for the rest.
func together(ctx context.Context, tasks ...func(context.Context) error) error {
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
			first = err // what ends later ends because of this one
		}
		cancel()
	}
	if ctx.Err() != nil {
		return nil
	}
	return first
}

// reader returns the reader of manifests.
func (c Config) reader() manifest.Reader {
	return manifest.Reader{Converter: convert.Converter{TrustAnnotations: c.TrustAnnotations}}
}

// renderer returns what the table is to look like.
func (c Config) renderer() nft.RendererConfig {
	return nft.RendererConfig{Table: c.Table, InterfacePrefix: c.InterfacePrefix}
}

// logRejected tells of something in a file that does not count.
func logRejected(logger *slog.Logger, file string, err error) {
	if errors.Is(err, convert.ErrIgnored) {
		logger.Debug("says nothing of policy", "file", file, "err", err)
		return
	}
	var where *manifest.Error
	if !errors.As(err, &where) {
		logger.Error("rejected", "file", file, "err", err)
		return
	}
	logger.Error("rejected", "file", file, "document", where.Document, "line", where.Line,
		"object", where.Object, "field", where.Field, "err", where.Err)
}
