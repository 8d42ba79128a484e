// SPDX-License-Identifier: Apache-2.0

// Package nfttest has what the tests of several packages of the nftables backend share.
//
// # Usage
//
//	func TestAllowed(t *testing.T) { nfttest.EachForm(t, testAllowed) }
//
// # Concurrency
//
// Everything is safe for concurrent use.
//
// # Errors
//
// There are none.
package nfttest
