// SPDX-License-Identifier: Apache-2.0

// Package probe tests with real packets whether one party reaches another. A party is a workload of
// a node that package node has built, or a host to which the uplink of this node leads. Package
// probe sends a TCP connection request, a UDP datagram or an ICMP echo request, and waits for the
// answer.
//
// # Usage
//
//	server, err := probe.Serve(web)
//	...
//	defer server.Close()
//	answer := probe.Send(ctx, probe.Probe{From: monitor.NS, To: server, Flow: flow, Wait: time.Second})
//
// A server answers with its name, so that an answer of another server is detected. Each probe uses
// a new source port or ICMP identifier. With a used one, its packets could belong to an established
// connection, and would then pass whatever policy says.
//
// # Concurrency
//
// Serve and Send are safe for concurrent use.
//
// # Errors
//
// If there is no answer, the outcome of the probe is Blocked, because policy drops packets without
// an answer. For any other failure (a refusal, no route, a wrong name), the outcome is Broken, with
// the reason.
package probe
