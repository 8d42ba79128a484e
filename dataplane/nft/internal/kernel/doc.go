// SPDX-License-Identifier: Apache-2.0

// Package kernel compares the version of the running kernel, for faults of kernels that no probe finds.
//
// # Usage
//
//	if kernel.OlderThan(6, 17) {
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
