// SPDX-License-Identifier: Apache-2.0

// Package verdict is the reference evaluator: it decides whether policy allows a flow, and explains
// why. The policy comes from a World, which has all resources of a cluster at one moment.
//
// The evaluator is written to be obviously right. It precomputes only what does not depend on a
// flow: parsed selectors, effective labels, the order of policies and the IDs of rules. For each
// flow, it evaluates tiers, policies and rules in order, as one would do on paper. Every other part
// of Wayleave that evaluates packets is tested against the evaluator, and shares no code with it.
//
//	       flow
//	        │
//	source endpoint ── egress ──▶ ┌ tier ─▶ tier ─▶ … ┐ ─▶ profiles ─▶ deny
//	                              │ policy            │
//	destination     ── ingress ─▶ │  rule, rule, …    │   Allow and Deny end the evaluation,
//	  endpoint                    └───────────────────┘   Pass leaves the tier
//
// # Usage
//
// A World is a map from keys to resources. Evaluate returns the verdict of a flow. Explain also
// returns every tier, policy and rule that was evaluated. Diff returns the flows whose verdicts
// differ between two worlds:
//
//	w := verdict.World{}
//	w.Set(resources...)
//	r := verdict.Evaluate(w, verdict.Flow{Src: src, Dst: dst, Protocol: policy.ProtocolTCP, DstPort: 80})
//	fmt.Println(r.Combined)
//	fmt.Println(verdict.Explain(w, flow))
//
// For many flows in one world, make an Evaluator with New: it compiles the world once.
// NewConfigured also takes the settings of nodes.
//
// # Flows without a node
//
// Without Flow.Node, only the policy of the workload endpoints that send and receive is evaluated,
// wherever they run. The source endpoint is the workload endpoint with the flow's source address.
// The destination endpoint is the one with the destination address. If no workload endpoint has the
// address, the result of that side is NotApplicable. If several have it, the policy of the endpoint
// with the smallest key is evaluated, unless the flow names another endpoint.
//
// Several endpoints may have the same address. A selector of a rule matches the address if it
// selects any of these endpoints. They include host endpoints that list the address in ExpectedIPs.
// A connection of a workload to itself is evaluated like any other.
//
// An endpoint that is down has no traffic. The connection tracking state (Flow.State) is evaluated
// before policy: packets of established connections are allowed. Invalid packets are denied, unless
// policy.HostConfig.KeepInvalid is set.
//
// # Flows through a node
//
// With Flow.Node, the packet's whole way through that node is evaluated. Set the interfaces in the
// Flow, too, if they do not follow from its addresses.
//
// A stage is a place on the packet's way where policy is evaluated. Most stages with policy of a
// host endpoint are at a host interface. In the table below, the stages with (*) are at the
// interface of a workload. They have the policy of the host endpoint for all interfaces (its
// InterfaceName is "*").
//
// The table has the stages in order. The row is the place where the packet enters the node, and the
// column the place where it leaves the node. Explanation.Stages leaves out a stage without policy.
//
//	from              to host processes  to a workload     to a host interface
//
//	a host interface  untracked in       untracked in      untracked in
//	                  pre-DNAT           pre-DNAT          pre-DNAT
//	                  host in            forward in        forward in
//	                                     forward out (*)   forward out
//	                                     workload in
//
//	a workload        pre-DNAT (*)       pre-DNAT (*)      pre-DNAT (*)
//	                  workload out       workload out      workload out
//	                  endpoint to host   forward in (*)    forward in (*)
//	                                     forward out (*)   forward out
//	                                     workload in
//
//	host processes    nothing            host to endpoint  untracked out
//	                                                       host out
//
// Host in and host out are the normal policies and profiles of the host endpoint that governs the
// interface. Forward in and forward out are the policies of that host endpoint with ApplyOnForward.
// Endpoint to host and host to endpoint are the settings EndpointToHostAction and
// HostToEndpointAction of policy.HostConfig.
//
// These rules hold for the stages:
//
//   - Several host endpoints may match a host interface by name or address. Then the one with the
//     smallest name governs the interface. If none matches, one of the host endpoints for all
//     interfaces governs it, again the one with the smallest name. But a host endpoint for all
//     interfaces never governs the loopback interface. Config.Interfaces has the addresses of
//     interfaces.
//   - Untracked policy is evaluated before connection tracking, also for established connections. A
//     packet that it allows skips pre-DNAT policy and all other policy of the host endpoint in this
//     direction. Its connection has no state, and NAT does not translate the packet. There is no
//     untracked policy for forwarded traffic on its way out, nor for workloads.
//   - A packet that pre-DNAT policy allows skips the other ingress policy of the host endpoint. It
//     does not skip a workload's policy or EndpointToHostAction.
//   - Untracked and pre-DNAT policy see the destination before NAT, and have no default action. If
//     no rule decides about a packet, or if all tiers pass it, the packet continues to the next
//     stage.
//   - In the stages forward in and forward out, profiles do not apply. If all tiers pass a packet,
//     the stage allows the packet. If no apply-on-forward policy selects the host endpoint, the
//     stage denies no packet, not even one in StateInvalid.
//   - Failsafe ports are for the host's own traffic only. The stages host in and host out allow
//     packets to a failsafe port before they evaluate policy, but after connection tracking. The
//     untracked and pre-DNAT stages do not apply to packets whose destination, before NAT, is a
//     failsafe port. The untracked stage also does not apply to packets whose source port is a
//     failsafe port of the other direction: these are the replies.
//   - A workload must send from one of its Addresses or AllowSpoofedSourcePrefixes, in every
//     connection tracking state. It must not send from its floating addresses (IPNATs). Packets
//     with one of policy.HostConfig.ForbiddenEncapsulations are dropped before policy.
//   - policy.HostConfig.NodeEncapsulations lists encapsulations that only nodes may send to a node.
//     A packet to the node itself with one of these is denied, unless its source is in the
//     Addresses of a Node. That holds in every state, and even if other stages allow the packet. It
//     does not hold for the loopback interface.
//   - A related packet (case S169 of docs/semantics.md) is, for example, an ICMP error about a
//     connection. It counts as new if its sender or receiver is a workload of this node that has
//     neither address of that connection. Otherwise it counts as established.
//   - A packet from the node to itself is not evaluated. A packet from a workload to itself is
//     evaluated only if destination NAT has translated it, for example from the address of a
//     service.
//   - For packets between a workload and its node, an action of policy.HostConfig is one of the
//     stages. The action HostDrop does not drop packets of established connections.
//
// These are not evaluated: IPv6 neighbour discovery and router solicitation between a workload and
// its node, ARP, and whether routing sends a packet by the interfaces of the flow. The Evaluator
// does not count broadcast and multicast addresses as addresses of the node. So a process of the
// node cannot receive a flow to such an address, for example a flow of DHCP. The Evaluator denies
// the flow as one that cannot exist. If such a flow leaves the node by an interface, it is
// evaluated as any other.
//
// # Resources
//
// Pools, blocks, and the order in which resources arrive make no difference. The Evaluator uses
// each resource as policy.Update.Admit returns it. If Admit rejects a resource, the resource is
// absent, and Evaluator.Rejected lists it. If some rules of a policy are not understood, the policy
// is enforced with these rules closed: they allow nothing. Evaluator.Doubts lists such a policy.
// The interface of a rejected workload endpoint counts as a host interface of its node. Host
// endpoints apply to this interface, also the host endpoint for all interfaces. The policy of the
// workload, and the check of its source addresses, do not apply.
//
// # Concurrency
//
// A World is a map: it must not be changed while another goroutine uses it. An Evaluator never
// changes and is safe for concurrent use. Each call of Explain returns a new Explanation.
//
// # Errors
//
// NewConfigured refuses invalid settings. No other function returns an error for invalid input.
// Invalid resources are absent, see Evaluator.Rejected. A flow that cannot exist is denied on both
// sides, with the reason in the explanation. Such a flow has, for example, no address or no
// protocol, addresses of two families, or an interface that its node does not have.
package verdict
