// SPDX-License-Identifier: Apache-2.0

// Package kernel compares the version of the running kernel, to work around faults of kernels that
// cannot be probed.
//
// # Usage
//
//	if kernel.OlderThan(6, 17, 0) {
//		...
//	}
//
// # Concurrency
//
// The function may be called from any goroutine.
//
// # Errors
//
// There are none: a kernel whose version cannot be read counts as older.
package kernel
