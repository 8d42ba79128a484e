// SPDX-License-Identifier: Apache-2.0

// Package wire runs a dataplane in another process. In the process with the Driver, a Server takes
// the place of this dataplane: it is a dataplane.Dataplane, too. It sends the Driver's batches over
// a connection to a Client in the other process. The Client applies them to the dataplane there.
// For clients in other languages, proto/wayleave/wire/v1/wire.proto and docs/wire.md describe the
// protocol.
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
// The Server keeps the desired state. A client that connects gets all of this state as a snapshot.
// A client that reconnects gets only the batches that it missed, if the Server still has them.
// While no client is connected, Apply returns an error that wraps ErrNotConnected. The Driver then
// reports all endpoints as failed, and tries again.
//
// A Client keeps the state that it has applied. While it is not connected, it applies no new state.
// It only repairs changes by other processes. If its dataplane is a dataplane.Finisher, which may
// delete objects later, the Client also completes these deletions. After a restart of the
// server, the Client waits until the server's new state is complete. Then it applies the difference
// between the state that it has applied and the new state.
//
// # Limits
//
// ServerConfig.MaxMessage limits the length of messages; large batches and sets are sent in parts.
// Apply returns when the client has applied the batch. Therefore a Driver sends one batch at a
// time. If one side does not read or answer for half a minute, the other side disconnects. By
// default, a Server accepts only clients on a Unix socket that run as the same user or as root.
// ServerConfig.Authenticate changes this.
//
// # Concurrency
//
// The methods of a Server may be called from any goroutine. But only one goroutine at a time may
// call the methods of the interface dataplane.Dataplane. A Client calls the methods of its
// dataplane, except Watch, from one goroutine.
//
// # Errors
//
// Apply and Resync return a join of *dataplane.ApplyError. The client sends the cause of an error
// only as text. Therefore errors.Is and errors.As do not find the original error. The error that
// ends a connection is logged.
package wire
