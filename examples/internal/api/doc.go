// SPDX-License-Identifier: Apache-2.0

// Package api is how other programs talk to a running agent: HTTP with JSON over a unix socket. It
// has what is said, a client, and the part of a server that lets in nobody but the agent's own user
// and root.
//
//	GET    /v1/status /v1/config /v1/endpoints /v1/policies /v1/sets[?members=true] /v1/routes /v1/ruleset
//	POST   /v1/explain {"from","to","port"}      who decides on a flow
//	POST   /v1/plan {"files"}                    what another folder of manifests would change
//	GET    /v1/watch                             events as they happen, one JSON object a line
//	GET    /v1/drops?group=N&rate=N[&all=true]   verdicts that are logged to an nflog group, one JSON object a line
//	POST   /v1/wait {"endpoint"}                 returns once the endpoint is programmed
//	PUT    /v1/registry a WorkloadEndpoint       registers an endpoint, and returns once it is programmed
//	DELETE /v1/registry?namespace=NS&name=NAME   forgets one, and returns once it is out of the kernel
//	GET    /v1/registry?namespace=NS&name=NAME   says whether one is registered and programmed
//	GET    /livez /readyz /metrics               as over HTTP
//
// Those that wait take timeout=20s, after which they say what for. DELETE takes &mac=ADDRESS: one
// with another stays.
//
// # Usage
//
//	client := api.NewClient("/run/wayleave/agent.sock")
//	status, err := api.Get[api.Status](ctx, client, "/v1/status")
//
// An agent holds the lock of its socket for as long as it lives: [Listen] takes it. [Lock] is for
// commands that must not run beside an agent.
//
// # Concurrency
//
// A Client is safe for concurrent use. All else are plain values.
//
// # Errors
//
// *Error is the agent's answer with its HTTP status. ErrNoAgent: nobody listens at the socket.
// ErrNoAnswer: the agent does not answer in time. ErrRefused: the socket belongs to another user.
// ErrRunning: an agent holds the lock of the socket.
package api
