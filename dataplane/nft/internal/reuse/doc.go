// SPDX-License-Identifier: Apache-2.0

// Package reuse empties maps that are filled again and again.
//
// # Usage
//
//	changed = reuse.Map(changed)
//
// # Concurrency
//
// Map is as safe as the map that it is given.
//
// # Errors
//
// None.
package reuse
