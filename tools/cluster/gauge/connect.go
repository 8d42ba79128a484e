// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/measure"
)

// connect opens connections one after the other, so that each one measures the way of its first
// packets.
func connect(ctx context.Context, args []string) (measure.Connections, error) {
	var result measure.Connections
	flags := newFlags("connect --to ADDRESS [FLAGS]")
	to := flags.String("to", "", "`address` of a server")
	limit := flags.Duration("time", 5*time.Second, "how `long` to measure")
	if err := flags.Parse(args); err != nil {
		return result, err
	}
	address, err := netip.ParseAddr(*to)
	if err != nil || flags.NArg() > 0 || *limit <= 0 {
		return result, fmt.Errorf("connect: needs --to ADDRESS, a --time above 0, and nothing else")
	}
	target := netip.AddrPortFrom(address, measure.TCPPort).String()
	dialer := net.Dialer{Timeout: time.Second}
	var took []time.Duration
	start := time.Now()
	for ctx.Err() == nil && time.Since(start) < *limit {
		before := time.Now()
		conn, err := dialer.DialContext(ctx, "tcp", target)
		if err != nil {
			result.Failed++
			continue
		}
		took = append(took, time.Since(before))
		// A reset leaves no connection in TIME_WAIT. Otherwise there would be too many.
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
	result.Opened = len(took)
	result.PerSecond = float64(len(took)) / time.Since(start).Seconds()
	result.Median, result.P99 = measure.Quantile(took, 0.5), measure.Quantile(took, 0.99)
	return result, nil
}
