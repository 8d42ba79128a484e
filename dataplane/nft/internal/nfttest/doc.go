// SPDX-License-Identifier: Apache-2.0

// Package nfttest provides states, random worlds and simulated packets for tests of the nftables
// backend. Several packages use it.
//
// # Usage
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
