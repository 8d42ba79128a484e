// SPDX-License-Identifier: Apache-2.0

// Package bench has benchmarks of the whole agent. They measure these values:
//
//   - the time from a change at a source until the rule is in the kernel
//   - the time of a start on an empty node, and of a restart on a programmed node
//   - the memory of the agent's process
//
// # Usage
//
//	make bench-record SECTION=agent
//	go test ./agent/internal/bench -run '^$' -bench . -full
//
// Without -full, only the smaller clusters are measured. In each cluster, 100 endpoints are on the
// node that is measured, and all others are on other nodes.
//
// # Concurrency
//
// The benchmarks run one after the other, each in a new network namespace.
//
// # Errors
//
// A benchmark fails if anything cannot be programmed.
package bench
