// SPDX-License-Identifier: Apache-2.0

// Package bench has no code but its benchmarks, of the whole: from a change at a source to the rule
// in the kernel, the start of an agent on a node that has nothing, its restart on one that has all,
// and the memory that it takes.
//
// # Usage
//
//	make bench-record SECTION=agent
//	go test ./agent/internal/bench -run '^$' -bench . -full
//
// Without -full only the smaller worlds are measured. Each has 100 local endpoints; all others are
// remote.
//
// # Concurrency
//
// The benchmarks run one after the other, each in a network namespace of its own.
//
// # Errors
//
// A benchmark fails where anything cannot be programmed.
package bench
