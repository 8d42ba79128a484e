// SPDX-License-Identifier: Apache-2.0

// Package verdict is the reference evaluator: given a world of resources and a flow,
// it decides whether policy allows the flow, and explains why.
//
// It is written to be obviously right. Only what does not depend on a flow is precomputed: parsed
// selectors, effective labels, the order of policies, the ids of rules. For each flow, it evaluates the
// tiers, policies and rules in order, as one would do on paper. Every other part of Wayleave that
// evaluates packets is tested against it, and shares no code with it.
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
// A World is a map of resources. Evaluate returns the verdict on a flow, Explain adds every tier, policy
// and rule that was evaluated, and Diff returns the verdicts that differ between two worlds:
//
//	w := verdict.World{}
//	w.Set(resources...)
//	r := verdict.Evaluate(w, verdict.Flow{Src: src, Dst: dst, Protocol: policy.ProtocolTCP, DstPort: 80})
//	fmt.Println(r.Combined)
//	fmt.Println(verdict.Explain(w, flow))
//
// For many flows in one world make an Evaluator with New: it parses the world once. NewConfigured
// takes the settings of nodes, too.
//
// # What is judged
//
// Without Flow.Node: policy alone, of the workload endpoints that send and receive, alike on every
// node. The source endpoint is the one that holds the flow's source address, the destination
// endpoint the one that holds the destination address. An address that no workload endpoint holds
// has no policy on its side: NotApplicable. A workload that connects to itself is judged like any
// other. Where several endpoints hold an address, the one with the smallest key is taken, unless
// the flow names another; as peers in rules they all count, and so do host endpoints under their
// ExpectedIPs. The state of connection tracking (Flow.State) comes before policy: established
// connections go on, invalid packets do not, and an endpoint that is down has no traffic at all.
//
// With Flow.Node: everything that one packet meets on its way through that node, in and out by
// which the Flow has. The stages are these; those without anything to judge by are left out.
//
//	from                  to host processes        to a workload            to a host interface
//	a host interface      untracked in, pre-DNAT,  untracked in, pre-DNAT,  untracked in, pre-DNAT,
//	                      host in                  forward in, forward out  forward in, forward out
//	                                               (*), workload in
//	a workload            pre-DNAT (*),            pre-DNAT (*),            pre-DNAT (*),
//	                      workload out,            workload out,            workload out,
//	                      endpoint to host         forward in (*), forward  forward in (*), forward
//	                                               out (*), workload in     out
//	host processes        nothing                  host to endpoint         untracked out, host out
//
// Host in and out are the normal policies and profiles of the host endpoint that governs the
// interface; forward those with ApplyOnForward. A stage with (*) is that of the host endpoint for
// all interfaces ("*"), which stands at the interfaces of workloads for these purposes alone.
//
//   - A host interface is governed by the host endpoint with the smallest name of those that match
//     by name or address, and where none does, by the one with the smallest name for all
//     interfaces. That leaves out the loopback interface. See Config.Interfaces for those found by
//     address.
//   - Untracked policy comes before connection tracking, and counts for established connections
//     too. What it allows passes over pre-DNAT policy and all other policy of the host endpoint in
//     the direction, has no state, and is not translated. There is none for forwarded traffic on
//     the way out, nor for workloads.
//   - What pre-DNAT policy allows passes over the other ingress policy of the host endpoint. It
//     does not pass over a workload's policy, nor over EndpointToHostAction.
//   - Untracked and pre-DNAT policy see the destination before NAT and have no end of tier: what no
//     rule decides goes on. So does what all tiers pass.
//   - Forwarded traffic that no apply-on-forward policy is for is allowed, whatever its state; so
//     is what all its tiers pass, as there are no profiles for it.
//   - Failsafe ports come before policy, after connection tracking, and for the host's own traffic
//     alone. In the untracked and pre-DNAT stages that is what is addressed to the node as the
//     stage sees it; these are then passed over. In the untracked stage replies count, too, which
//     come from a failsafe port of the other direction.
//   - A workload must send from an address of its own or from AllowSpoofedSourcePrefixes, in
//     whatever state; its floating addresses (IPNATs) are not among them. What
//     policy.HostConfig.ForbiddenEncapsulations returns is dropped before policy.
//   - An encapsulated packet to the node itself is denied if policy.HostConfig.NodeEncapsulations has its
//     encapsulation, and its source is not in Addresses of a Node. That holds in every state, also if
//     other stages allow the packet, but not for the loopback interface.
//   - A related packet (S169) counts as established where each workload that sends or receives it,
//     on this node, has an address of the connection that it is related to, and otherwise as new.
//     Other interfaces do not matter.
//   - Between a workload and its node, and for traffic that does not leave either, other rules
//     hold: a packet of a workload to itself and of the node to itself is not judged, unless NAT
//     leads it back to the workload. HostConfig decides about the others. A HostAction that
//     drops spares established connections.
//
// Not judged are IPv6 neighbour discovery and router solicitation between a workload and its node,
// ARP, whether routing sends a packet where the flow has it, and what is sent to a broadcast or
// multicast address: that is never one of the node's own, so a flow to its processes by such an
// address (DHCP) cannot exist, and one that leaves through an interface is forwarded, or sent, like
// any other.
//
// Pools, blocks, and the order in which resources arrive make no difference. The Evaluator uses
// each resource as policy.Update.Admit returns it. A refused resource is absent, and
// Evaluator.Rejected lists it. A policy with rules in doubt is in force with these rules closed,
// and Evaluator.Doubts lists it. The interface of a refused workload endpoint is an ordinary
// interface of its node: host endpoints apply to it, also the one for all interfaces, and the
// workload's policy and source checks do not.
//
// # Concurrency
//
// A World is an ordinary map: it must not be changed while another goroutine uses it.
// An Evaluator never changes after New and may be used from many goroutines. An
// Explanation belongs to the caller.
//
// # Errors
//
// NewConfigured refuses settings that are not valid; nothing else here fails. What cannot be
// understood is denied or absent: invalid resources are listed by Evaluator.Rejected, and a flow
// that cannot exist (no address, no protocol, addresses of two families, a way in or out of its
// node that the world does not have) is denied on both sides, with the reason in the explanation.
package verdict
