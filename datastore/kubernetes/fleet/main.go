// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	if os.Getenv(workerMode) != "" {
		work()
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is the whole program. It returns the exit status.
func command(ctx context.Context, args []string, out, progress io.Writer) int {
	cfg, err := parse(args, progress)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(progress, "fleet:", err)
		return 2
	}
	start := time.Now()
	r := &results{Config: cfg}
	log := func(format string, args ...any) {
		fmt.Fprintf(progress, "%6.1f s  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
	for _, name := range cfg.Backends {
		if err = withHost(ctx, progress, func(h *host) error { return r.measure(h, cfg, name, log) }); err != nil {
			break
		}
	}
	if len(r.Runs) > 0 {
		r.print(out) // after an error, print the results so far
	}
	if err != nil {
		fmt.Fprintln(progress, "fleet:", err)
		return 1
	}
	return 0
}

// measure runs the scenarios on one backend.
func (r *results) measure(h *host, cfg config, name string, log func(string, ...any)) error {
	ctx := h.Context()
	f, err := newFleet(h, cfg, name, log)
	if err != nil {
		return err
	}
	if api, ok := f.backend.(*apiBackend); ok {
		if r.Sizes, err = api.sizes(ctx, f.world); err != nil {
			return err
		}
	}
	for _, s := range scenarios() {
		wanted := slices.Contains(cfg.Scenarios, s.name)
		if !wanted && s.name != "start" {
			continue
		}
		times := 1
		if s.repeat {
			times = cfg.Repeat
		}
		for range times {
			m, err := f.measure(ctx, s)
			if err != nil {
				return err
			}
			log("%s: %s", name, m)
			if wanted {
				r.Runs = append(r.Runs, m)
			}
		}
	}
	verified, err := f.verify(ctx, cfg.Verify)
	if err != nil {
		return err
	}
	log("%s: the states of %d nodes equal a fresh graph's", name, verified)
	r.Verified += verified
	return f.stop(ctx)
}
