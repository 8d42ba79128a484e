// SPDX-License-Identifier: Apache-2.0

// Package sockets has what listeners on Unix sockets and their clients share.
//
// # Usage
//
//	err := sockets.RemoveStale(path)
//	listener, err := sockets.Listen(path, 0o666)
//	conn, err := sockets.Dial(ctx, path)
//
// # Concurrency
//
// All functions may be called from any goroutine.
//
// # Errors
//
// Those of the system, and errors that name a path that is in use.
package sockets
