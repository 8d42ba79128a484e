// SPDX-License-Identifier: Apache-2.0

// Package server serves HTTP with limits, so that clients that send nothing, send slowly, read
// slowly or leave cost little, and cannot keep others out.
//
//	accept ─▶ over the limit? wait, then close the longest idle connection
//	       ─▶ header in time? ─▶ body, in memory, in time? ─▶ handler ─▶ each write in time?
//
// A connection is idle from the server's first read on, while no handler serves it; it may be
// sending a header or a body. Over the limit, a new connection waits until one has been idle for
// Config.EvictAfter, and the server closes that one. Further connections wait in the listener's
// queue, in their order.
//
// Connections that send slowly therefore never keep a new one out, however many there are. Clients
// that reconnect all the time never end the connection of a client that sends its request at once.
//
// # Usage
//
//	err := server.Run(ctx, server.Config{Listener: l, Handler: mux, MaxConns: 256, Logger: logger})
//
// A handler that waits learns from the context of its request that the client has left, also if it
// never reads the body: the body is in memory before the handler runs.
//
// # Concurrency
//
// Run may be called for several listeners at once.
//
// # Errors
//
// Run returns the error of its context, or that the listener was closed. A listener that fails is
// tried again, and the log has the cause.
package server
