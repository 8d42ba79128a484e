// SPDX-License-Identifier: Apache-2.0

// Package memory keeps a process within the memory limit of its cgroup. Near the limit, the garbage
// collector runs more often. If the process needs more memory than the limit while it starts, Watch
// returns an error before the kernel kills the process.
//
//	limit of the cgroup ─▶ 90 % for the Go runtime ─▶ Watch: the last collection left more than 80 % of that?
//	GOMEMLIMIT, if set  ─▶ the Go runtime's own    ─▶ Watch: the last collection left more than that?
//
// # Usage
//
//	limit := memory.Read(os.DirFS("/"))
//	memory.Set(limit)
//	err := limit.Watch(ctx, 0) // until the first write to the kernel
//
// # Concurrency
//
// All functions may be called from several goroutines.
//
// # Errors
//
// Watch returns *ExceededError, or the error of its context. If a limit cannot be read, there is no
// limit.
package memory
