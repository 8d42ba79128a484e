// SPDX-License-Identifier: Apache-2.0

// Package api is the API of a running agent for other programs: HTTP with JSON over a Unix socket.
// It has the types, a client, and the part of the server that accepts only the agent's user and
// root.
//
//	GET    /v1/status /v1/config /v1/endpoints /v1/policies /v1/sets[?members=true] /v1/routes /v1/ruleset
//	POST   /v1/explain {"from","to","port"}      the rules that decide about a flow
//	POST   /v1/plan {"files"}                    the changes that other manifests would make
//	GET    /v1/watch                             events as they happen, one JSON object a line
//	GET    /v1/drops?group=N&rate=N[&all=true]   verdicts that are logged to an nflog group, one JSON object a line
//	POST   /v1/wait {"endpoint"}                 returns once the endpoint is programmed
//	PUT    /v1/registry a WorkloadEndpoint       registers an endpoint, and returns once it is programmed
//	DELETE /v1/registry?namespace=NS&name=NAME   deletes one, and returns once it is removed from the kernel
//	GET    /v1/registry?namespace=NS&name=NAME   whether one is registered and programmed
//	GET    /livez /readyz /metrics               as over HTTP
//
// A registered endpoint is one that a CNI plugin has passed to the agent. Requests that wait accept
// the parameter timeout, as in timeout=20s. After that time, the answer has the reason why the
// agent still waits. DELETE accepts the parameter mac: an endpoint with another MAC address is not
// deleted. The agent also serves /livez, /readyz and /metrics on its HTTP address, with the same
// answers.
//
// # Usage
//
//	client := api.NewClient("/run/wayleave/agent.sock")
//	status, err := api.Get[api.Status](ctx, client, "/v1/status")
//
// Each socket has a lock. An agent takes the lock with [Listen], and holds it until the agent ends.
// A command that must not run while an agent runs takes the lock with [Lock].
//
// # Concurrency
//
// A Client is safe for concurrent use. All other types are plain data.
//
// # Errors
//
// These errors are returned:
//
//   - *Error: the agent has answered with an error and an HTTP status.
//   - ErrNoAgent: no process listens on the socket.
//   - ErrNoAnswer: the agent does not answer in time.
//   - ErrEnded: the agent has closed the connection.
//   - ErrRefused: the socket belongs to another user.
//   - ErrRunning: an agent holds the lock of the socket.
package api
