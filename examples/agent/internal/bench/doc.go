// SPDX-License-Identifier: Apache-2.0

// Package bench has benchmarks of the whole agent: the time from a change at a source to the rule in the kernel, the
// start on an empty node, the restart on a programmed one, and the memory.
//
// # Usage
//
//	make bench-record SECTION=agent
//	go test ./agent/internal/bench -run '^$' -bench . -full
//
// Without -full, only the smaller worlds are measured. Each world has 100 local endpoints; all others are remote.
//
// # Concurrency
//
// The benchmarks run one after the other, each in a new network namespace.
//
// # Errors
//
// A benchmark fails if anything cannot be programmed.
package bench
