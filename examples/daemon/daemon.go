// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/pods"
	"github.com/wayleave/wayleave/policy"
)

// prefix is what the names of the node's side of links begin with. Before a link has its policy,
// its packets drop.
const prefix = "pod"

// config configures a daemon.
type config struct {
	client kubernetes.Interface
	node   string
	folder string // of the socket and the links
	netns  int    // file descriptor of the network namespace; 0 is that of the process
	logger *slog.Logger
}

// daemon is the parts of a CNI daemon, wired.
type daemon struct {
	cfg       config
	converter convert.Converter
	store     datastore.Memory
	pods      *pods.Pods
	runner    *calcgraph.Runner
	filter    *nft.Dataplane
	driver    *dataplane.Driver
}

// newDaemon wires a daemon and opens its sockets to the kernel. It writes nothing yet.
func newDaemon(cfg config) (d *daemon, err error) {
	d = &daemon{cfg: cfg}
	graph, err := calcgraph.New(calcgraph.Config{Node: cfg.node, Hooks: calcgraph.Hooks{
		Rejected: func(key policy.Key, err error) { cfg.logger.Error("absent", "object", key, "err", err) },
		Doubt: func(key policy.Key, doubt *policy.DoubtError) {
			if doubt != nil {
				cfg.logger.Error("some rules are closed", "object", key, "err", doubt)
			}
		},
	}})
	if err != nil {
		return nil, err
	}
	d.runner, err = calcgraph.NewRunner(calcgraph.RunnerConfig{
		Graph: graph,
		Out:   func(ctx context.Context, b dataplane.Batch) error { return d.driver.Send(ctx, b) },
	})
	if err != nil {
		return nil, err
	}
	d.pods, err = pods.New(pods.Config{
		Node: cfg.node, Converter: d.converter, Report: func(_ pods.Ref, problems []error) { d.report(problems) },
		Update: func(u policy.Update) { d.update([]policy.Update{u}) },
	})
	if err != nil {
		return nil, err
	}
	// Kubernetes expects that pods reach their own node: its pods with host networking, the API server.
	host := policy.HostConfig{EndpointToHostAction: policy.HostAccept}
	d.filter, err = nft.New(nft.Config{
		NetNS: cfg.netns, Renderer: render.Config{InterfacePrefix: prefix, Host: host}, Logger: cfg.logger,
	})
	if err != nil {
		return nil, err
	}
	d.driver, err = dataplane.NewDriver(dataplane.DriverConfig{
		Dataplanes: []dataplane.Dataplane{d.filter}, Logger: cfg.logger,
	})
	if err != nil {
		return nil, errors.Join(err, d.filter.Close())
	}
	return d, nil
}

// run runs the parts until the context is done, and returns nil then, or until one of them fails.
// The kernel keeps what is programmed.
func (d *daemon) run(ctx context.Context) error {
	if err := d.attachAll(); err != nil { // before the endpoints count as complete
		return errors.Join(err, d.filter.Close())
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	for _, part := range []func(context.Context) error{d.driver.Run, d.runner.Run, d.read, d.serve} {
		parts.Go(func() { cancel(part(inner)) }) // the first that ends has the others end
	}
	parts.Wait()
	err := context.Cause(inner)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, d.filter.Close())
}

// update puts changes into the store.
func (d *daemon) update(updates []policy.Update) {
	if err := d.store.Update(context.Background(), updates); err != nil { // a key that is not its resource's
		d.cfg.logger.Error("not stored", "err", err)
	}
}

// report logs what is wrong with an object.
func (d *daemon) report(problems []error) {
	for _, err := range problems {
		if !errors.Is(err, convert.ErrIgnored) { // no fault
			d.cfg.logger.Error("not understood", "err", err)
		}
	}
}
