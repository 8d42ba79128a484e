// SPDX-License-Identifier: Apache-2.0

// Package worldgen makes random resources and packets for tests that hold one part of
// the project against another: small worlds, in which the same few labels,
// addresses, ports and names meet often.
//
// # Usage
//
//	gen := worldgen.New(seed)
//	for range 50 {
//		graph.Update(gen.Update())
//	}
//	flow := gen.Flow()
//
// Equal seeds give equal sequences, so a failing test only has to print its seed.
//
// # Concurrency
//
// A Gen is for one goroutine.
//
// # Errors
//
// There are none. Some updates carry invalid resources on purpose. They count as absent, except for
// policies with invalid rules.
package worldgen
