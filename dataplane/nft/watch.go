// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
)

// Watch implements dataplane.Watcher: it calls drifted when another process changes our table, and, while there is a host endpoint that is found
// by address, when the addresses of the host's interfaces change. Resync then puts right what follows from it. drifted is called from
// several goroutines, and returns at once.
//
// It may run while other methods are called, once at a time. It returns the error of the context when that is done, or why it cannot go on: after
// Close, that it is closed.
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
	return d.applier.Watch(ctx, func(drift applier.Drift) {
		by := ""
		if drift.Process != "" {
			by = fmt.Sprintf("%s (%d)", drift.Process, drift.PID)
		}
		drifted(dataplane.Drift{Backend: backend, Object: "table inet " + d.config.Renderer.Table, Process: by})
	})
}

func (d *Dataplane) watchInterfaces(ctx context.Context, drifted func(dataplane.Drift)) error {
	var last map[string][]netip.Addr
	return interfaces.Watch(ctx, interfaces.Config{Namespace: d.namespace}, func(s *interfaces.Snapshot) {
		now := addressesOf(s)
		same := last != nil && maps.EqualFunc(last, now, slices.Equal[[]netip.Addr])
		last = now
		if !same && d.byAddress.Load() {
			drifted(dataplane.Drift{Backend: backend, Object: "the addresses of interfaces"})
		}
	})
}

// readInterfaces returns the addresses of the interfaces, by name.
func (d *Dataplane) readInterfaces() (map[string][]netip.Addr, error) {
	if d.config.Interfaces != nil {
		return d.config.Interfaces()
	}
	s, err := interfaces.Read(interfaces.Config{Namespace: d.namespace})
	if err != nil {
		return nil, err
	}
	return addressesOf(s), nil
}

func addressesOf(s *interfaces.Snapshot) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for _, i := range s.All() {
		var addrs []netip.Addr
		for _, p := range i.Addresses {
			addrs = append(addrs, p.Addr())
		}
		out[i.Name] = addrs
	}
	return out
}

// keepNamespace returns what to reach a network namespace by as long as it is not released: a file descriptor, or 0 for that of the program, which
// is reached without the right to enter others.
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
