// SPDX-License-Identifier: Apache-2.0

// Package reuse empties maps that are filled again and again, such as a map of changes that have
// not been sent yet. A small map is cleared. A large map is replaced by a new one, because clearing
// it could take long.
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
