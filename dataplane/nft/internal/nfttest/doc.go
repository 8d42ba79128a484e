// SPDX-License-Identifier: Apache-2.0

// Package nfttest has what the tests of several packages of the nftables backend share: states and
// random worlds, with the tables and simulated packets for them.
//
// # Usage
//
//	func TestAllowed(t *testing.T) { nfttest.EachForm(t, testAllowed) }
//
// # Concurrency
//
// Functions are safe for concurrent use. A World and a Cluster are for one goroutine at a time.
//
// # Errors
//
// There are none: an error ends the test.
package nfttest
