// SPDX-License-Identifier: Apache-2.0

// Package kernel compares the version of the running kernel with a given one. It is for workarounds
// of kernel bugs that cannot be detected otherwise.
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
// There are none. If the version of the kernel cannot be read, the kernel counts as older.
package kernel
