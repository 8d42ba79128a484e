// SPDX-License-Identifier: Apache-2.0

// Package nfttest has helpers for tests of the nftables backend in several packages. The helpers
// are desired states of the backend, random resources (a World or a Cluster), scripts, and frames.
//
// # Usage
//
// The renderer writes policy to nftables as lookups or as chains. EachForm runs a test with lookups
// and with chains:
//
//	func TestAllowed(t *testing.T) { nfttest.EachForm(t, testAllowed) }
//
// # Concurrency
//
// Functions are safe for concurrent use. Only one goroutine at a time may use a World or a Cluster.
//
// # Errors
//
// There are none: an error ends the test.
package nfttest
