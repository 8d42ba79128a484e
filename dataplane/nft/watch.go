// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"fmt"
	"sync"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
)

// Watch implements dataplane.Watcher. It calls drifted in three cases: another process changes our
// table; the interface of an endpoint becomes a port of a master or ceases to be one; or an
// interface address changes while a host endpoint is found by address. Resync then repairs the
// table. drifted is called from several goroutines, and returns at once.
//
// It may run while other methods are called, once at a time. It returns the error of the context
// when that is done, otherwise the error that ended it: after Close, that the applier is closed.
func (d *Dataplane) Watch(ctx context.Context, drifted func(dataplane.Drift)) error {
	if d.config.Interfaces != nil { // the provider of Interfaces detects their changes
		return d.watchTable(ctx, drifted)
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var both sync.WaitGroup
	both.Go(func() { cancel(d.watchTable(inner, drifted)) })
	both.Go(func() { cancel(d.watchInterfaces(inner, drifted)) })
	both.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return context.Cause(inner)
}

func (d *Dataplane) watchTable(ctx context.Context, drifted func(dataplane.Drift)) error {
	return d.applier.Watch(ctx, func(drift applier.Drift) { drifted(driftOf(drift, d.config.Renderer.Table)) })
}

// driftOf returns the drift of a table for the Driver. Only the change of a known process is foreign: the
// kernel may have changed the table itself, and missed notifications may be about other tables.
func driftOf(drift applier.Drift, table string) dataplane.Drift {
	by := ""
	if drift.Process != "" {
		by = fmt.Sprintf("%s (%d)", drift.Process, drift.PID)
	}
	return dataplane.Drift{Backend: backend, Object: "table inet " + table, Process: by, Foreign: drift.PID != 0}
}

func (d *Dataplane) watchInterfaces(ctx context.Context, drifted func(dataplane.Drift)) error {
	return d.interfaces.Watch(ctx, func(object string) {
		drifted(dataplane.Drift{Backend: backend, Object: object})
	})
}
