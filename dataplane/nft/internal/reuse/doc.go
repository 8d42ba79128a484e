// SPDX-License-Identifier: Apache-2.0

// Package reuse empties maps that are filled again and again.
//
// # Usage
//
//	changed = reuse.Map(changed)
//
// # Concurrency
//
// Map changes its argument, so no other goroutine may use this map at the same time.
//
// # Errors
//
// None.
package reuse
