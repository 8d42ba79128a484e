// SPDX-License-Identifier: Apache-2.0

// Package soak has a long test of the agent. Endpoints, labels, policies and links change at random under traffic, and
// the agent is killed at random times. No allowed packet may be lost, and no denied one may pass. At the end, the
// kernel state must equal that of a new start, and the process must not have more memory, goroutines and descriptors
// than at the start.
//
// # Usage
//
//	make soak
//	go test ./agent/internal/soak -soak 10m -seed 7 -v
//
// Without -soak it lasts some seconds.
//
// # Concurrency
//
// The test starts processes and goroutines, in new network namespaces.
//
// # Errors
//
// A failure has the seed, with which the test can be repeated.
package soak
