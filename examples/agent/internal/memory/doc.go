// SPDX-License-Identifier: Apache-2.0

// Package memory keeps a process within the memory limit of its cgroup. The default limit is 90 %
// of the cgroup's limit. The function Set sets the soft limit of the Go runtime to the default
// limit. The garbage collector then runs more often when memory gets short. If the environment
// variable GOMEMLIMIT sets another soft limit, Set keeps that soft limit.
//
// While the process starts, Watch checks how much memory is in use. It returns an error before the
// kernel would kill the process, in each of these cases:
//
//   - After a garbage collection, the heap is larger than 80 % of the default limit, even if
//     GOMEMLIMIT is set. The garbage collector would then take most of the processor time.
//   - The Go runtime has more memory than 103 % of the default limit, even if GOMEMLIMIT is set.
//     The process then allocates faster than the garbage collector frees.
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
