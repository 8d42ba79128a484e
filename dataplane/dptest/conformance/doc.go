// SPDX-License-Identifier: Apache-2.0

// Package conformance tests that a dataplane keeps the contract of dataplane.Dataplane: idempotent
// calls, retries, adoption after a restart, order of removal, isolation of bad objects, and state of
// others left alone.
//
// # Usage
//
// A Harness opens the dataplane over a kernel of the test's own, and lists what is programmed:
//
//	conformance.Run(t, func(t *testing.T) conformance.Harness {
//		return conformance.Harness{Open: ..., Dump: ...}
//	})
//
// More checks run with the optional functions of Harness.
//
// # Concurrency
//
// The kit calls a dataplane from one goroutine, except Watch.
//
// # Errors
//
// The kit fails the test.
package conformance
