// SPDX-License-Identifier: Apache-2.0

// Package memory keeps a process within the memory limit of its cgroup. Set gives the Go runtime a
// soft limit of 90 % of the cgroup's limit, so that the garbage collector runs more often when
// memory gets short. If the environment variable GOMEMLIMIT sets another soft limit, Set keeps that
// limit.
//
// While the process starts, Watch checks how much memory is in use. It returns an error before the
// kernel would kill the process, in each of the cases below. The first two cases do not depend on
// GOMEMLIMIT:
//
//   - After a garbage collection, the heap is larger than 80 % of those 90 %. The garbage collector
//     would then take most of the processor time.
//   - The Go runtime has more memory than 103 % of those 90 %. The process then allocates faster
//     than the garbage collector frees.
//   - GOMEMLIMIT is set, and after a garbage collection, the heap is larger than GOMEMLIMIT.
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
