// SPDX-License-Identifier: Apache-2.0

// Package pki generates the certificates and keys of a test cluster, valid for 30 days.
//
// # Usage
//
//	err := pki.Write(dir, []string{"kubernetes"}, []netip.Addr{netip.MustParseAddr("10.96.0.1")})
//
// # Concurrency
//
// Write may be called by several goroutines, with different folders.
//
// # Errors
//
// Write returns the errors of files that cannot be written.
package pki
