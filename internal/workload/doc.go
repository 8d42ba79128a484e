// SPDX-License-Identifier: Apache-2.0

// Package workload makes the resources of W1, a large cluster that the benchmarks of several
// packages use.
//
// # Usage
//
//	w := workload.W1{Remote: 250_000, Policies: 10_000}
//	for u := range w.Updates() {
//		graph.Update(u)
//	}
//
// # Concurrency
//
// All functions may be called from any goroutine.
//
// # Errors
//
// There are none.
package workload
