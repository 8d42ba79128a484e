// SPDX-License-Identifier: Apache-2.0

// Package verdict is the reference evaluator: given a world of resources and a flow,
// it says whether policy lets the flow through, and why.
//
// It is written to be obviously right. Nothing is precomputed but parsed selectors and
// effective labels; each flow walks the tiers, policies and rules in order, as one
// would do on paper. Every other part of Wayleave that judges packets is tested
// against it, and shares no code with it.
//
//	       flow
//	        │
//	source endpoint ── egress ──▶ ┌ tier ─▶ tier ─▶ … ┐ ─▶ profiles ─▶ deny
//	                              │ policy            │
//	destination     ── ingress ─▶ │  rule, rule, …    │   Allow and Deny end the walk,
//	  endpoint                    └───────────────────┘   Pass leaves the tier
//
// # Usage
//
// A World is a map of resources. Evaluate answers one question, Explain answers it
// with every tier, policy and rule that was looked at:
//
//	w := verdict.World{}
//	w.Set(resources...)
//	r := verdict.Evaluate(w, verdict.Flow{Src: src, Dst: dst, Protocol: policy.ProtocolTCP, DstPort: 80})
//	fmt.Println(r.Combined)
//	fmt.Println(verdict.Explain(w, flow))
//
// For many flows in one world make an Evaluator with New: it parses the world once.
//
// # What is judged
//
// Policy alone, between workload endpoints, for the first packet of a connection and
// with the destination after destination NAT. Spoofed addresses, connection tracking
// and what the host itself sends are not policy and not judged here. Endpoints are judged
// alike on every node.
//
// The source endpoint is the one that holds the flow's source address, the destination
// endpoint the one that holds the destination address. An address that no endpoint
// holds has no policy on its side: NotApplicable. Where several endpoints hold an
// address, the one with the smallest key is taken, unless the flow names another;
// as peers in rules they all count.
//
// A resource that Validate refuses is as good as absent, and Evaluator.Rejected lists it.
//
// # Concurrency
//
// A World is an ordinary map: it must not be changed while another goroutine uses it.
// An Evaluator never changes after New and may be used from many goroutines. An
// Explanation belongs to the caller.
//
// # Errors
//
// Nothing here fails. What cannot be understood is denied or absent: invalid resources
// are listed by Evaluator.Rejected, and a flow that cannot exist (no address, or addresses of
// two families) is denied on both sides, with the reason in the explanation.
package verdict
