// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"fmt"
	"runtime/metrics"
	"time"
)

// ExceededError means that the process needs more memory than its limit.
type ExceededError struct {
	Limit Limit
	// Used is the memory in use when the error was detected, in bytes.
	Used int64
}

// Error returns a text with the memory in use and the limit.
func (e *ExceededError) Error() string {
	return fmt.Sprintf("memory: more is needed than the limit allows: %d MiB in use, limit %s", e.Used>>20, e.Limit)
}

// watchEvery is the default interval of Watch.
const watchEvery = 5 * time.Millisecond

// Watch returns an *ExceededError once the process uses too much memory (the documentation of the
// package has the limits). The parameter every is the time between two checks; 0 means 5 ms. If
// there is no limit, Watch waits until ctx is done.
func (l Limit) Watch(ctx context.Context, every time.Duration) error {
	if l.Env == 0 && l.Cgroup == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	if every == 0 {
		every = watchEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for u := newUsage(); ; {
		if err := l.check(u.read()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// check returns an error in three cases:
//
//   - The heap that the last collection left is over 80 % of l.usable. Then the garbage collector
//     would take most of the processor time.
//   - The runtime's memory is over 103 % of l.usable. Then the process allocates faster than the
//     collector frees.
//   - This heap is over the limit from the environment. Such a limit is soft, so the runtime's
//     memory may exceed it.
func (l Limit) check(live, total int64) error {
	switch {
	case l.Cgroup > 0 && live > l.usable()/10*8, l.Env > 0 && live > l.Env:
		return &ExceededError{Limit: l, Used: live}
	case l.Cgroup > 0 && total > l.usable()/100*103:
		return &ExceededError{Limit: l, Used: total}
	}
	return nil
}

// usage reads how much memory the Go runtime uses.
type usage []metrics.Sample

func newUsage() usage {
	return usage{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
}

// read returns the heap after the last collection, and all memory that the runtime has from the
// system, in bytes.
func (u usage) read() (live, total int64) {
	metrics.Read(u)
	return int64(u[0].Value.Uint64()), int64(u[1].Value.Uint64() - u[2].Value.Uint64())
}
