// SPDX-License-Identifier: Apache-2.0

// Package wire runs a dataplane in another process. A Server is a dataplane.Dataplane of a Driver. It sends the batches
// over a connection to a Client in the other process, which applies them to the dataplane there. For clients in other
// languages, proto/wayleave/wire/v1/wire.proto and docs/wire.md describe the protocol.
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
// The Server keeps the desired state. A client that connects gets all of it as a snapshot. A client that reconnects
// gets only the batches that it missed, if the Server still has them. While no client is connected, Apply returns an
// error that wraps ErrNotConnected, and the Driver reports all endpoints as failed and tries again. Nothing changes in
// the kernel then.
//
// A client keeps the state that it applied. While it has no server, it leaves the dataplane as it is, and repairs
// changes by other processes. After a restart of the server, the client waits until the new state is complete, and
// applies the difference.
//
// # Limits
//
// ServerConfig.MaxMessage limits the length of messages; large batches and sets are sent in parts. Apply returns when
// the client has applied the batch, so a Driver sends one batch at a time. A peer that does not read or answer for half
// a minute is disconnected. By default, a Server accepts only clients on a Unix socket that run as the same user or as
// root: see ServerConfig.Authenticate.
//
// # Concurrency
//
// The methods of a Server may be called from any goroutine, those of dataplane.Dataplane from one at a time. A Client
// calls its dataplane from one goroutine, except Watch.
//
// # Errors
//
// Apply and Resync return a join of *dataplane.ApplyError. The cause of an object's error has only its text: its type
// is not transmitted. The error that ends a connection is logged.
package wire
