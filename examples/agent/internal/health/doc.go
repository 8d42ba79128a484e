// SPDX-License-Identifier: Apache-2.0

// Package health reports over HTTP whether the agent is alive and ready, with the state of each
// part. A part is stuck if it is busy and has made no progress for Config.Timeout. A part that is
// busy all the time and makes progress is not stuck. The agent is alive if none of its parts is
// stuck. It is ready if, in addition, the desired state that its sources have sent is in the
// kernel.
//
// # Usage
//
//	h := health.New(health.Config{Timeout: 30 * time.Second, Components: components})
//	go h.Run(ctx)
//	http.Handle("/livez", h.Live())
//	http.Handle("/readyz", h.Ready())
//
// The handler Live returns the HTTP status 200 if the agent is alive. The handler Ready returns 200
// if the agent is ready. Otherwise, both return 503. The body has the state of each part as JSON:
//
//	{"ok":false,"components":[{"name":"driver","ok":false,"detail":"nothing is in the kernel yet"}]}
//
// A part that is ready may have a note, about a problem that does not affect pods.
//
// # Concurrency
//
// A Checker is safe for concurrent use.
//
// # Errors
//
// Run returns the error of its context.
package health
