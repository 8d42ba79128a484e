// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
)

// gatedRoutes calls Config.BeforeWrite before each call that may write. If that fails, the batch is
// lost, because no later call can write either.
type gatedRoutes struct {
	*routes.Dataplane
	before func() error
	inSync bool
}

var (
	_ dataplane.Dataplane = (*gatedRoutes)(nil)
	_ dataplane.Planner   = (*gatedRoutes)(nil)
	_ dataplane.Watcher   = (*gatedRoutes)(nil)
)

func (r *gatedRoutes) Apply(ctx context.Context, b dataplane.Batch) error {
	r.inSync = r.inSync || b.CarriesInSync()
	if err := r.checkWrite(); err != nil {
		return err
	}
	return r.Dataplane.Apply(ctx, b)
}

func (r *gatedRoutes) Resync(ctx context.Context) error {
	if err := r.checkWrite(); err != nil {
		return err
	}
	return r.Dataplane.Resync(ctx)
}

// checkWrite returns the error of BeforeWrite. It does not call it before the state is in sync,
// because nothing is written then.
func (r *gatedRoutes) checkWrite() error {
	if !r.inSync {
		return nil
	}
	return r.before()
}
