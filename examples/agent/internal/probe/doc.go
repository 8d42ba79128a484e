// SPDX-License-Identifier: Apache-2.0

// Package probe finds out with real packets whether one party reaches another: a TCP connection, a
// UDP datagram or an ICMP echo, and the answer to it.
//
// # Usage
//
//	server, err := probe.Serve(web)
//	...
//	defer server.Close()
//	answer := probe.Send(ctx, probe.Probe{From: monitor.NS, To: server, Flow: flow, Wait: time.Second})
//
// A server answers with its name, so that a packet that ended up with somebody else does not count.
// Every flow needs a source port of its own, or ICMP identifier: one that connection tracking knows
// already would pass.
//
// # Concurrency
//
// Serve and Send may be called from any number of goroutines.
//
// # Errors
//
// Silence is not an error but Blocked: policy drops without a word. Whatever else keeps an answer
// from coming (a refusal, no route, a wrong name) is Broken, with the reason.
package probe
