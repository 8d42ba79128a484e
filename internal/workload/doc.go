// SPDX-License-Identifier: Apache-2.0

// Package workload has the workload of benchmarks that several packages measure: W1, a large cluster.
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
