// SPDX-License-Identifier: Apache-2.0

// Package wire runs a dataplane in another process. A Server is the dataplane.Dataplane of a Driver. It sends the
// batches over a connection to a client, which applies them to a dataplane there. The protocol is in
// proto/wayleave/wire/v1/wire.proto and docs/wire.md, for clients in other languages.
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
// # What happens when one of them ends
//
// The Server keeps the desired state. A client that connects gets all of it as a snapshot, or what it missed if that is
// little. While there is no client, Apply returns an error that wraps ErrNotConnected, and the Driver reports all
// endpoints as failed and tries again. Nothing changes in the kernel then.
//
// A client keeps the state that it applied. While there is no server, the dataplane stays as it is, and changes by
// other processes are repaired. After a restart of the server, the client waits until the new state is complete, and
// applies the difference.
//
// # Limits
//
// Messages have a limit (ServerConfig.MaxMessage); large batches and sets come in parts. A Server has one batch at a
// time under way, and Apply returns when the client has applied it. A peer that does not read or answer for half a
// minute is disconnected. By default, a Server accepts only clients on a Unix socket that run as the same user or as
// root: see ServerConfig.Authenticate.
//
// # Concurrency
//
// The methods of a Server may be called from any goroutine, those of dataplane.Dataplane from one at a time. A Client
// calls its dataplane from one goroutine, except Watch.
//
// # Errors
//
// Errors of objects arrive as *dataplane.ApplyError with the text of their cause: its type is lost. The last error of a
// connection is logged.
package wire
