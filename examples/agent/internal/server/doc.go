// SPDX-License-Identifier: Apache-2.0

// Package server is an HTTP server with limits on time and on the number of connections. The limits
// are for clients that connect and send nothing, that send or read slowly, or that disappear. Such
// clients cost little, and cannot prevent other clients from connecting.
//
//	accept ─▶ over the limit? wait, then close the longest idle connection
//	       ─▶ header in time? ─▶ body, in memory, in time? ─▶ handler ─▶ each write in time?
//
// Config.MaxConns limits the number of open connections. If a client connects when the limit is
// reached, the server does the following:
//
//  1. The new connection waits. If more clients connect, their connections wait in the listener's
//     queue, in the order in which they arrived.
//  2. The server looks for idle connections. A connection is idle while no handler serves it, even
//     if the client is sending the header or body of a request.
//  3. Once a connection has been idle for Config.EvictAfter, the server closes this connection, and
//     serves the new one.
//
// The idle time of a connection begins when the server first reads from the connection. When the
// first data of the client arrives, the server sets the idle time to zero again. Later data has no
// effect on the idle time. This has two consequences:
//
//   - If a client sends a request slowly, its connection soon reaches the idle time
//     Config.EvictAfter. So such clients cannot keep a new client out, however many they are.
//   - If a client sends its request at once, the handler runs before the connection reaches this
//     idle time. So the server does not disconnect the client before the handler runs, even if
//     other clients connect all the time.
//
// # Usage
//
//	err := server.Run(ctx, server.Config{Listener: l, Handler: mux, MaxConns: 256, Logger: logger})
//
// The server reads the body of a request into memory before the handler runs. Therefore the context
// of the request ends when the client disconnects, even if the handler does not read the body.
//
// # Concurrency
//
// Run may be called for several listeners at once.
//
// # Errors
//
// Run returns the error of its context, or an error if the listener was closed. If accepting a
// connection fails for another reason, the server logs the error and tries again.
package server
