// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// maxIdle is the maximum share of one core that the processes of an idle implementation use
	// together.
	maxIdle = 0.05
	// clockTick is that of /proc (USER_HZ of Linux).
	clockTick = 10 * time.Millisecond
)

// consumption is the processor time and memory of an implementation's processes on all nodes.
type consumption struct {
	processor time.Duration // also of children that have ended
	memory    int64         // resident, of the largest one, in bytes
	processes int
}

// consumed returns the consumption of an implementation's processes so far.
func (m *comparison) consumed(i implementation) (consumption, error) {
	var u consumption
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return u, err
	}
	for _, file := range lines {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte(i.process)) {
			continue
		}
		dir := filepath.Dir(file)
		group, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || !bytes.Contains(group, []byte("/"+m.c.cgroup()+"/")) {
			continue // of another cluster
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		// See proc_pid_stat(5): after the name come state (3), utime (14) to cstime (17) and rss
		// (24).
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 22 {
			return u, fmt.Errorf("%s/stat: %q", dir, stat)
		}
		for _, field := range fields[11:15] {
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return u, fmt.Errorf("%s/stat: %w", dir, err)
			}
			u.processor += time.Duration(ticks) * clockTick
		}
		pages, err := strconv.ParseInt(fields[21], 10, 64)
		if err != nil {
			return u, fmt.Errorf("%s/stat: %w", dir, err)
		}
		u.memory = max(u.memory, pages*int64(os.Getpagesize()))
		u.processes++
	}
	if u.processes < m.c.Nodes {
		return u, fmt.Errorf("%d processes run on %d nodes", u.processes, m.c.Nodes)
	}
	return u, nil
}

// waitIdle waits until the implementation is idle for 3 seconds.
func (m *comparison) waitIdle(ctx context.Context, i implementation) error {
	const pause = 3 * time.Second
	for deadline := time.Now().Add(waitLimit); time.Now().Before(deadline); {
		before, err := m.consumed(i)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		after, err := m.consumed(i)
		if err != nil {
			return err
		}
		if used := after.processor - before.processor; used >= 0 && used.Seconds() < maxIdle*pause.Seconds() {
			return nil
		}
	}
	return errors.New("it is not idle after " + waitLimit.String())
}

// start starts the implementation, and waits until it is idle.
func (m *comparison) start(ctx context.Context, i implementation, add func(string, float64)) error {
	if err := i.start(m, ctx); err != nil {
		return err
	}
	select { // all processes are there
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(3 * time.Second):
	}
	if err := m.waitIdle(ctx, i); err != nil {
		return err
	}
	used, err := m.consumed(i)
	if err != nil {
		return err
	}
	add("start: CPU time [s]", used.processor.Seconds())
	return nil
}

// measureIdle measures for some time without changes.
func (m *comparison) measureIdle(ctx context.Context, i implementation, add func(string, float64)) error {
	before, err := m.consumed(i)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(m.idle):
	}
	after, err := m.consumed(i)
	if err != nil {
		return err
	}
	share := (after.processor - before.processor).Seconds() / m.idle.Seconds() / float64(m.c.Nodes)
	add("idle: CPU per node [% of a core]", 100*share)
	add("idle: RSS [MB]", float64(after.memory)/1e6)
	return nil
}
