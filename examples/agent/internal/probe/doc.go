// SPDX-License-Identifier: Apache-2.0

// Package probe tests with real packets whether one party reaches another. It sends a TCP
// connection request, a UDP datagram or an ICMP echo request, and waits for the answer.
//
// # Usage
//
//	server, err := probe.Serve(web)
//	...
//	defer server.Close()
//	answer := probe.Send(ctx, probe.Probe{From: monitor.NS, To: server, Flow: flow, Wait: time.Second})
//
// A server answers with its name, so that an answer of another server is detected. Each probe uses
// a new source port or ICMP identifier. Otherwise its packets could belong to a connection that
// policy has allowed before, and would pass.
//
// # Concurrency
//
// Serve and Send are safe for concurrent use.
//
// # Errors
//
// No answer is the outcome Blocked, because policy drops packets without an answer. Any other
// failure (a refusal, no route, a wrong name) is the outcome Broken, with the reason.
package probe
