// SPDX-License-Identifier: Apache-2.0

// Package registry keeps the endpoints that were registered over the agent's socket, as a CNI
// plugin does: in memory, as a source of desired state, and on disk, so that they are there again
// after a restart.
//
// # Usage
//
//	r, problems, err := registry.Open("/var/lib/wayleave/endpoints")
//	err = r.Put(ctx, endpoint)
//	go r.Run(ctx, receiver)
//
// Each endpoint is a JSON file of its own, which is written and synced before the endpoint counts.
//
// # Concurrency
//
// A Registry is safe for concurrent use, and may run any number of times at once.
//
// # Errors
//
// What cannot be written does not count, and the error says so: a full disk keeps an endpoint from
// being registered, and loses none that is.
package registry
