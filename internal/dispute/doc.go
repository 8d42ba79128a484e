// SPDX-License-Identifier: Apache-2.0

// Package dispute detects that another process changes the same object again and again. For
// example, a second agent with the same table or route protocol does this.
//
// # Usage
//
// Record each change that another process makes to an object, under a key of your choice. An object
// that changes five times within 30 s is disputed until it has not changed for 2 min. The method
// Disputed returns these objects.
//
// # Concurrency
//
// A Tracker is not safe for concurrent use.
//
// # Errors
//
// Nothing here fails.
package dispute
