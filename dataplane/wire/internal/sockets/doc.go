// SPDX-License-Identifier: Apache-2.0

// Package sockets has what listeners on Unix sockets share.
//
// # Usage
//
//	err := sockets.RemoveStale(path) // then listen
//
// # Concurrency
//
// All functions may be called from any goroutine.
//
// # Errors
//
// Those of the system, and errors that name a path that is in use.
package sockets
