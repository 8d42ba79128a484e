// SPDX-License-Identifier: Apache-2.0

// Package policysync sends the policy of each workload endpoint to processes in that workload, for
// example to a sidecar that authorises HTTP requests. A Server is a dataplane.Dataplane. It has a
// Unix socket for each endpoint, on which it serves the gRPC service of
// proto/wayleave/policysync/v1/policysync.proto. For clients in other languages, docs/policysync.md
// describes the service.
//
//	Driver ──▶ nft, routes, ..., Server ══ gRPC over a socket for each endpoint ══▶ Client in the workload
//
// # Usage
//
// In the process with the Driver, after the dataplanes of the kernel:
//
//	server, err := policysync.NewServer(policysync.ServerConfig{Folder: "/run/wayleave/policysync"})
//	all := []dataplane.Dataplane{filter, table, server}
//	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: all})
//
// The Folder has a subfolder for each Kubernetes namespace. Mount the subfolder of the workload's
// namespace into its container, here at /run/policysync. In a process of the workload:
//
//	client, err := policysync.NewClient(policysync.ClientConfig{Path: "/run/policysync/web.sock"})
//	go client.Run(ctx)
//	decision := client.State().Ingress(packet, policysync.UnknownDSCP) // State returns nil before the first state
//
// # What a subscriber gets
//
// A subscriber is a process that calls the service. It first gets a snapshot, which consists of
//
//   - the endpoint,
//   - the policies and profiles that the endpoint refers to, staged policies included,
//   - the sets that the rules of these policies and profiles name, and
//   - the event InSync.
//
// Then the subscriber gets each change of these objects, in the order of dataplane.Batch, and
// nothing else. It gets a set, policy or profile when something first refers to that object. When
// nothing refers to the object any longer, the subscriber gets the event that removes the object.
//
// A subscriber that reads too slowly gets a new snapshot instead of the changes that it missed.
// Apply does not wait until subscribers have read their responses. Collecting the content of a
// response blocks Apply; encoding and sending the response does not.
//
// Apply checks the objects of each batch, even if there are no subscribers. It encodes and decodes
// changed policies, profiles and endpoints, and checks changed members of sets.
//
// # Identity
//
// A process of the workload may run as any user. Therefore the file permissions of an endpoint's
// socket allow all users to connect. But the Server accepts a connection only from a process in the
// workload: see InWorkload. It checks the process before it reads anything from the connection. It
// checks the process again before it sends each response, because the endpoint may now belong to
// another workload with the same name and addresses.
//
// # Concurrency
//
// The methods of a Server may be called from any goroutine. But only one goroutine at a time may
// call the methods of the interface dataplane.Dataplane. A Client calls ClientConfig.Changed on the
// goroutine of Run.
//
// # Errors
//
// Apply and Resync return a *dataplane.ApplyError for each endpoint whose socket cannot be opened,
// or whose policy cannot be sent. (A policy cannot be sent if a message cannot express it, or if a
// client could not decode it.) A Driver reports the endpoint as failed. Calls of the service end
// with a gRPC status, which the .proto file describes.
package policysync
