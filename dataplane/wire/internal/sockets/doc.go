// SPDX-License-Identifier: Apache-2.0

// Package sockets listens on Unix sockets, connects to them and removes stale ones. On Linux, paths
// may be longer than sun_path (unix(7)). Control gives access to the file descriptor of a
// connection.
//
// # Usage
//
//	listener, err := sockets.Listen(path, 0o755, 0o666)
//	conn, err := sockets.Dial(ctx, path)
//	err := sockets.RemoveStale(path)
//
// # Concurrency
//
// All functions may be called from any goroutine.
//
// # Errors
//
// The functions return errors of system calls. RemoveStale and Listen also return an error if the
// path is in use.
package sockets
