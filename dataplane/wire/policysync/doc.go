// SPDX-License-Identifier: Apache-2.0

// Package policysync sends the policy of each workload endpoint to processes in that workload, for example a sidecar
// that authorises HTTP requests. A Server is a dataplane.Dataplane. It listens on a Unix socket for each endpoint, and
// serves the gRPC service of proto/wayleave/policysync/v1/policysync.proto there. docs/policysync.md is for clients in
// other languages.
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
// In a process of the workload, which has the folder of its namespace mounted:
//
//	client, err := policysync.NewClient(policysync.ClientConfig{Path: "/run/policysync/web.sock"})
//	go client.Run(ctx)
//	decision := client.State().Ingress(packet, policysync.UnknownDSCP) // State returns nil before the first state
//
// # What a subscriber gets
//
// First it gets a snapshot: the endpoint, the policies and profiles that it refers to (staged ones, too), the sets that
// their rules name, and InSync. Then it gets each change of these objects, in the order of dataplane.Batch, and nothing
// else. A set, policy or profile is sent when the first reference to it appears, and removed with the last one.
//
// A subscriber that is slow gets a snapshot in place of the changes that it missed. Apply waits for no subscriber to
// read. It takes turns with the calls, which collect the objects of a response one at a time and encode them
// afterwards.
//
// Apply checks the objects of each batch, also without subscribers: it encodes and decodes changed policies, profiles
// and endpoints, and looks at changed members of sets.
//
// # Identity
//
// The socket of an endpoint is open to all users, because a process of the workload runs as any user. The Server
// accepts a connection only from a process in the workload: see InWorkload. It checks before it reads anything, and
// again before each message: a workload may be replaced by another one with the same names and addresses.
//
// # Concurrency
//
// The methods of a Server may be called from any goroutine, those of dataplane.Dataplane from one at a time. A Client
// calls ClientConfig.Changed on the goroutine of Run.
//
// # Errors
//
// Apply and Resync return a *dataplane.ApplyError for each endpoint whose socket cannot be opened, or whose policy
// cannot be sent: a message cannot express it, or a client could not decode it. A Driver reports the endpoint as
// failed. Calls end with a gRPC status: see the schema.
package policysync
