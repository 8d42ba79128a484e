// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
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

// grace is how long the end of the agent waits for the transaction in progress.
const grace = 10 * time.Second

// config configures an agent.
type config struct {
	manifests string // the folder
	node      string
	netns     int // file descriptor of the network namespace; 0 means that of the process
	logger    *slog.Logger
}

// agent connects the parts of a node agent.
type agent struct {
	source datastore.Source
	runner *calcgraph.Runner
	driver *dataplane.Driver
	opened []io.Closer
}

// newAgent returns an agent. It opens sockets, and does not change the kernel state yet.
func newAgent(cfg config) (*agent, error) {
	a := &agent{}
	if err := errors.Join(a.openSource(cfg), a.openKernel(cfg), a.openGraph(cfg)); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// openSource makes the source of desired state, which converts manifests to resources.
func (a *agent) openSource(cfg config) (err error) {
	reader := manifest.Reader{Converter: convert.Converter{}}
	a.source, err = datastore.NewDir(datastore.DirConfig{
		Path: cfg.manifests, Extensions: manifest.Extensions(), Decode: reader.Decode,
		Rejected: func(file string, err error) {
			if !errors.Is(err, convert.ErrIgnored) { // an object without effect on policy, such as a Deployment
				cfg.logger.Error("rejected", "file", file, "err", err)
			}
		},
	})
	return err
}

// openKernel makes the dataplanes and the driver. The driver calls the dataplanes in order, and
// retries after errors. Policy comes first, so that no endpoint has a route before it has its
// policy.
func (a *agent) openKernel(cfg config) error {
	filter, err := nft.New(nft.Config{NetNS: cfg.netns, Logger: cfg.logger})
	if err != nil {
		return err
	}
	a.opened = append(a.opened, filter)
	routing, err := routes.New(routes.Config{NetNS: cfg.netns, Logger: cfg.logger})
	if err != nil {
		return err
	}
	a.opened = append(a.opened, routing)
	a.driver, err = dataplane.NewDriver(dataplane.DriverConfig{
		Dataplanes: []dataplane.Dataplane{filter, routing}, Logger: cfg.logger,
	})
	return err
}

// openGraph makes the graph, which computes the events of this node from the resources of the
// cluster. It also makes the runner, which feeds the graph. While the driver's queue is full, the
// runner keeps only the last state of each object.
func (a *agent) openGraph(cfg config) error {
	graph, err := calcgraph.New(calcgraph.Config{
		Node: cfg.node,
		Hooks: calcgraph.Hooks{
			Rejected: func(key policy.Key, err error) {
				cfg.logger.Error("rejected, so absent", "object", key, "err", err)
			},
			Doubt: func(key policy.Key, doubt *policy.DoubtError) {
				if doubt != nil {
					cfg.logger.Error("some rules are closed", "object", key, "err", doubt)
				}
			},
		},
	})
	if err != nil {
		return err
	}
	a.runner, err = calcgraph.NewRunner(calcgraph.RunnerConfig{
		Graph: graph,
		Out:   func(ctx context.Context, b dataplane.Batch) error { return a.driver.Send(ctx, b) },
	})
	return err
}

// run runs the parts until the context is done, and then returns nil. If a part fails, run ends the
// others and returns the error.
func (a *agent) run(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	for _, part := range []func(context.Context) error{
		a.drive,
		a.runner.Run,
		func(ctx context.Context) error { return a.source.Run(ctx, a.runner) },
	} {
		parts.Go(func() { cancel(part(inner)) }) // when the first part ends, the others end, too
	}
	parts.Wait()
	err := context.Cause(inner)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, a.close())
}

// drive runs the driver. At the end, the driver finishes what it is programming.
func (a *agent) drive(ctx context.Context) error {
	whole := context.WithoutCancel(ctx)
	stop := context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(whole, grace)
		defer cancel()
		_ = a.driver.Shutdown(limited) // after grace, the driver's Run is interrupted
	})
	defer stop()
	return a.driver.Run(whole)
}

// close closes the sockets. The kernel state stays.
func (a *agent) close() error {
	var errs []error
	for _, c := range a.opened {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
