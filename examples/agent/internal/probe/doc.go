// SPDX-License-Identifier: Apache-2.0

// Package probe tests with real packets whether one party reaches another. Package node builds a
// small node. A party is a workload of this node, or the host at the other end of the node's
// uplink. Package probe sends a TCP connection request, a UDP datagram or an ICMP echo request, and
// waits for the answer.
//
// # Usage
//
//	server, err := probe.Serve(web)
//	...
//	defer server.Close()
//	answer := probe.Send(ctx, probe.Probe{From: monitor.NS, To: server, Flow: flow, Wait: time.Second})
//
// A server answers with its name, so that an answer of another server is detected.
//
// Give each probe a new source port or ICMP identifier: set Flow.SrcPort. If two probes have the
// same one, packets of the second probe may belong to the connection of the first. Then they may
// pass even if policy denies them.
//
// # Concurrency
//
// Serve and Send are safe for concurrent use.
//
// # Errors
//
// If no answer arrives, and the server has received nothing, the outcome of the probe is Blocked:
// policy drops packets and sends no answer. For any other failure (a refusal, no route, a wrong
// name, a lost answer), the outcome is Broken, with the reason.
package probe
