// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/policy"
)

// wire connects the parts of a daemon and opens its sockets to the kernel. It writes nothing yet.
func wire(cfg config) (d *daemon, err error) {
	d = &daemon{cfg: cfg}
	d.source, err = kubernetes.New(kubernetes.Config{
		Client: cfg.client, Informers: cfg.informers, Dynamic: cfg.dynamic, Node: cfg.node, Omit: cfg.omit,
		Hooks: kubernetes.Hooks{Problems: d.logProblems}, Logger: cfg.logger,
	})
	if err != nil {
		return nil, err
	}
	graph, err := calcgraph.New(calcgraph.Config{
		Node: cfg.node, Hooks: calcgraph.Hooks{Rejected: d.logRejected, Doubt: d.logDoubt},
	})
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
	// Pods of Kubernetes must reach their own node, for example its pods with host networking.
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
