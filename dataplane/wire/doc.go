// SPDX-License-Identifier: Apache-2.0

// Package wire runs a dataplane in another process. In the process with the Driver, a Server takes
// the place of this dataplane: a Server is a dataplane.Dataplane, too. The Server sends the
// Driver's batches to a Client in the other process, which applies them to the dataplane there. For
// clients in other languages, docs/wire.md describes the protocol.
//
//	Driver ──▶ Server ══ protobuf over a socket ══▶ Client ──▶ nft, routes, or another dataplane
//	        ◀── errors, drift ◀══ status, drift ◀══
//
// # Usage
//
// In the process with the graph and the Driver:
//
//	server, err := wire.NewServer(wire.ServerConfig{})
//	listener, err := wire.Listen("/run/wayleave/dataplane.sock")
//	go server.Serve(ctx, listener)
//	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{server}})
//
// In the process with the dataplane:
//
//	client, err := wire.NewClient(wire.ClientConfig{Dataplane: dp})
//	err = client.Run(ctx, wire.Dial("/run/wayleave/dataplane.sock"))
//
// # When the server or the client ends
//
// The Server keeps the desired state. A client that connects gets this state as a snapshot. A
// client that reconnects gets only the batches that it missed, if the Server still has them. While
// no client is connected, Apply returns an error that wraps ErrNotConnected (see Server.Apply).
//
// A Client keeps the state that it has applied. While it is not connected, it repairs changes by
// other processes, and completes deletions that a dataplane.Finisher has left for later. After a
// restart of the server, the Client waits until the server's new state is complete. Then it applies
// the difference.
//
// # Limits
//
//   - ServerConfig.MaxMessage limits the length of messages. Large batches and sets are sent in
//     parts.
//   - Apply returns when the client has applied the batch.
//   - ServerConfig.Timeout and ClientConfig.Timeout limit the time that the other side may take to
//     read or to answer. Then the connection ends.
//   - By default, a Server accepts only clients on a Unix socket that run as the same user or as
//     root. ServerConfig.Authenticate changes this.
//
// # Concurrency
//
// The interface dataplane.Dataplane has three methods. Only one goroutine at a time may call these
// methods of a Server. The other methods of a Server may be called from any goroutine. A Client
// calls the methods of its dataplane, except Watch, from one goroutine.
//
// # Errors
//
// Apply and Resync return a join of *dataplane.ApplyError. The client sends the cause of an error
// as text, so errors.Is and errors.As do not find the original error. The error that ends a
// connection is logged.
package wire
