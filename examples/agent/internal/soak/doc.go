// SPDX-License-Identifier: Apache-2.0

// Package soak has no code but its test: an agent under everything that happens to a node in a long
// day, squeezed into minutes. Endpoints, labels, policies and links change at random under traffic,
// and the agent is killed at any moment. Of what is allowed not one packet may be lost, what is
// denied must never pass; in the end the kernel must hold what a run from scratch programs, and the
// process no more memory, goroutines and descriptors than at the start.
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
// The test starts processes and goroutines of its own, in network namespaces of its own.
//
// # Errors
//
// The test fails with the seed, with which it can be run again.
package soak
