// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	clientgo "k8s.io/client-go/kubernetes"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// prefix is the prefix of the names of the node's side of links. Until a link has its policy, its
// packets are dropped.
const prefix = "pod"

// config configures a daemon.
type config struct {
	client    clientgo.Interface
	informers informers.SharedInformerFactory // of the client
	dynamic   dynamic.Interface
	node      string
	omit      []string // kinds that are not read
	folder    string   // of the socket and the links
	netns     int      // file descriptor of the network namespace; 0 is that of the process
	logger    *slog.Logger
}

// daemon has the connected parts of a CNI daemon.
type daemon struct {
	cfg    config
	source *kubernetes.Source
	runner *calcgraph.Runner
	filter *nft.Dataplane
	driver *dataplane.Driver
}

// run runs the parts until the context is done, and then returns nil, or until one of them fails.
// The kernel state stays.
func (d *daemon) run(ctx context.Context) error {
	if err := d.attachAll(); err != nil { // before the Source reports that all endpoints are complete
		return errors.Join(err, d.filter.Close())
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	read := func(ctx context.Context) error { return d.source.Run(ctx, d.runner) }
	var parts sync.WaitGroup
	for _, part := range []func(context.Context) error{d.driver.Run, d.runner.Run, read, d.serve} {
		parts.Go(func() { cancel(part(inner)) }) // when one part ends, the others end, too
	}
	parts.Wait()
	d.cfg.informers.Shutdown() // waits: they end with the Source, which has started them
	err := context.Cause(inner)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, d.filter.Close())
}

// logProblems logs the problems of an object.
func (d *daemon) logProblems(_ convert.Object, problems []error) {
	for _, err := range problems { // each has the object
		d.cfg.logger.Error("not understood", "err", err)
	}
}

// logRejected logs why a resource is absent.
func (d *daemon) logRejected(key policy.Key, err error) {
	d.cfg.logger.Error("absent", "object", key, "err", err)
}

// logDoubt logs why rules of a resource are closed.
func (d *daemon) logDoubt(key policy.Key, doubt *policy.DoubtError) {
	if doubt != nil {
		d.cfg.logger.Error("some rules are closed", "object", key, "err", doubt)
	}
}
