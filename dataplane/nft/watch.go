// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
)

// Watch implements dataplane.Watcher. It calls drifted in three cases: another process changes our
// table; the interface of an endpoint becomes a port of a master or ceases to be one; or an
// interface address changes while a host endpoint is found by address. Resync then repairs the
// table. drifted is called from several goroutines, and returns at once.
//
// It may run while other methods are called, once at a time. It returns the error of the context
// when that is done, or why it cannot go on: after Close, that it is closed.
func (d *Dataplane) Watch(ctx context.Context, drifted func(dataplane.Drift)) error {
	if d.config.Interfaces != nil { // whoever knows the interfaces knows when they change
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
	defer d.observed.stopWatching()
	return interfaces.Watch(ctx, interfaces.Config{Namespace: d.namespace}, func(s *interfaces.Snapshot) {
		if object := d.observed.differs(s); object != "" {
			drifted(dataplane.Drift{Backend: backend, Object: object})
		}
	})
}

// keepNamespace returns what to reach a network namespace by as long as it is not released: a file
// descriptor, or 0 for that of the program, which is reached without the right to enter others.
func keepNamespace(netns int) (fd int, release func() error, err error) {
	nothing := func() error { return nil }
	if netns == 0 {
		thread, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return 0, nothing, err
		}
		defer func() { _ = thread.Close() }()
		ours, err := thread.Stat()
		if err != nil {
			return 0, nothing, err
		}
		if program, err := os.Stat("/proc/self/ns/net"); err == nil && os.SameFile(program, ours) {
			return 0, nothing, nil
		}
		netns = int(thread.Fd())
	}
	fd, err = unix.FcntlInt(uintptr(netns), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, nothing, err
	}
	return fd, func() error { return unix.Close(fd) }, nil
}
