// SPDX-License-Identifier: Apache-2.0

// Package health says whether the agent is alive (its parts get on with their work) and ready (what
// is in the kernel is what the sources say), part by part, over HTTP.
//
// # Usage
//
//	h := health.New(health.Config{Timeout: 30 * time.Second, Components: components})
//	go h.Run(ctx)
//	http.Handle("/livez", h.Live())
//	http.Handle("/readyz", h.Ready())
//
// The status is 200 or 503, and the body says why, as JSON:
//
//	{"ok":false,"components":[{"name":"driver","ok":false,"detail":"nothing is in the kernel yet"}]}
//
// A part may be ready and have a note, where people should know something that is no reason to do
// without the node.
//
// A part is stuck if it is busy and has not got on for the time-out. Work that goes on without end
// but gets on is fine.
//
// # Concurrency
//
// A Checker is safe for concurrent use.
//
// # Errors
//
// Run returns the error of its context.
package health
