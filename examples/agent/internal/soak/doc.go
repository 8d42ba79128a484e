// SPDX-License-Identifier: Apache-2.0

// Package soak has a long test of the agent. It sends packets. Meanwhile it changes endpoints,
// labels, policies and network interfaces at random, and kills the agent at random times. No
// allowed packet may be lost, and no denied packet may pass. At the end, the kernel state must be
// the same as after a new start of the agent. In the last third of the test, the memory, goroutines
// and file descriptors of the agent must not grow.
//
// # Usage
//
//	make soak
//	go test ./agent/internal/soak -soak 10m -seed 7 -v
//
// Without -soak, the test lasts some seconds.
//
// # Concurrency
//
// The test starts processes and goroutines, in new network namespaces.
//
// # Errors
//
// The output of a failed test contains the seed. With the seed, the test can be repeated.
package soak
