// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"fmt"
	"sync"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
)

// Watch implements dataplane.Watcher. It calls drifted when Resync must be called, because the
// table in the kernel is no longer right. This is the case if one of these things happens:
//
//   - Another process changes the table.
//   - The interface of an endpoint becomes a port of a master (such as a bridge), or ceases to be
//     one.
//   - An address of an interface changes, and there are host endpoints whose interface is found by
//     its addresses.
//
// Watch calls drifted from several goroutines. It may run while other methods are called, but only
// once at a time. It returns the error of the context when the context is done. Otherwise it
// returns the error that ended it, such as applier.ErrClosed after Close.
func (d *Dataplane) Watch(ctx context.Context, drifted func(dataplane.Drift)) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	all.Go(func() { cancel(watchTable(inner, d.applier, "table inet "+d.config.Renderer.Table, drifted)) })
	if d.ports != nil {
		all.Go(func() { cancel(watchTable(inner, d.ports.applier, d.ports.object(), drifted)) })
	}
	if d.config.Interfaces == nil { // otherwise the provider of Interfaces detects changes of interfaces
		all.Go(func() { cancel(d.watchInterfaces(inner, drifted)) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return context.Cause(inner)
}

func watchTable(ctx context.Context, a *applier.Applier, object string, drifted func(dataplane.Drift)) error {
	return a.Watch(ctx, func(drift applier.Drift) { drifted(driftOf(drift, object)) })
}

// driftOf converts a drift of a table for the Driver. The drift is foreign only if the process that
// changed the table is known. Otherwise the kernel may have changed the table itself, or missed
// notifications may concern other tables.
func driftOf(drift applier.Drift, object string) dataplane.Drift {
	by := ""
	if drift.Process != "" {
		by = fmt.Sprintf("%s (%d)", drift.Process, drift.PID)
	}
	return dataplane.Drift{Backend: backend, Object: object, Process: by, Foreign: drift.PID != 0}
}

func (d *Dataplane) watchInterfaces(ctx context.Context, drifted func(dataplane.Drift)) error {
	return d.interfaces.Watch(ctx, func(object string) {
		drifted(dataplane.Drift{Backend: backend, Object: object})
	})
}
