// SPDX-License-Identifier: Apache-2.0

// Package registry keeps the endpoints that were registered over the agent's socket, for example by
// a CNI plugin. A Registry sends these endpoints to the agent, as a source of desired state
// (datastore.Source). It also stores them on disk, so that they exist after a restart.
//
// # Usage
//
//	r, problems, err := registry.Open("/var/lib/wayleave/endpoints")
//	err = r.Put(ctx, endpoint)
//	go r.Run(ctx, receiver)
//
// Each endpoint is stored in a JSON file. The Registry writes and syncs this file before it sends
// the endpoint.
//
// # Concurrency
//
// A Registry is safe for concurrent use. Several calls of Run may run at once.
//
// # Errors
//
// If the file of an endpoint cannot be written, the endpoint is not registered, and Put returns the
// error. This happens, for example, if the disk is full. Registered endpoints are never lost.
package registry
