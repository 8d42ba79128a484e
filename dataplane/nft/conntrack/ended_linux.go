// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

const (
	// groupEnded is NFNLGRP_CONNTRACK_DESTROY: notifications about flows that end.
	groupEnded = 3
	// endedBuffer is the size of the receive buffer in bytes. It has space for about 10,000
	// notifications.
	endedBuffer = 8 << 20
)

// WatchEnded calls cfg.Ended for each flow that ends, until ctx is done. It calls the functions of
// cfg on the goroutine of its caller.
//
// Errors: the error of the context, or of a system call.
func WatchEnded(ctx context.Context, cfg WatchConfig) error {
	sock, err := netlink.Open(netlink.Config{Family: netlink.Netfilter, NetNS: cfg.NetNS})
	if err != nil {
		return fmt.Errorf("conntrack: watch: %w", err)
	}
	conn := netlink.NewConn(sock)
	defer func() { _ = conn.Close() }()
	if _, err := sock.GrowReceive(endedBuffer); err != nil {
		return fmt.Errorf("conntrack: watch: %w", err)
	}
	if err := sock.Join(groupEnded); err != nil {
		return fmt.Errorf("conntrack: watch: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = sock.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if cfg.Started != nil {
		cfg.Started()
	}
	for {
		err := sock.Wait()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil || errors.Is(err, unix.ENOBUFS) {
			var missed bool
			missed, err = conn.Poll(func(m netlink.Message) error { return cfg.notify(m) })
			if missed && cfg.Missed != nil {
				cfg.Missed()
			}
		}
		if err != nil {
			return fmt.Errorf("conntrack: watch: %w", err)
		}
	}
}

func (c *WatchConfig) notify(m netlink.Message) error {
	f, ok, err := decodeFlow(m)
	if !ok || err != nil {
		return err
	}
	counters, err := decodeCounters(m)
	if err == nil {
		c.Ended(&f, counters)
	}
	return err
}
