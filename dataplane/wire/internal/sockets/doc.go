// SPDX-License-Identifier: Apache-2.0

// Package sockets listens on Unix sockets, connects to them and removes stale ones. Paths may exceed sun_path on Linux.
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
