// SPDX-License-Identifier: Apache-2.0

// Package render translates events into changes of an nftables table. It uses neither the kernel
// nor a clock.
//
//	events ──▶ Renderer ──▶ ruleset.Delta
//
// # The table
//
// One table of family inet filters IPv4 and IPv6. Each of the hooks forward, input, output and
// postrouting has one base chain for all of its normal policy. (Normal policy is all policy except
// untracked and pre-DNAT policy of host endpoints.) The base chain jumps to chains of policy. If a
// rule there allows or denies a packet, it records this decision in the packet's priority
// (skb->priority) and returns to the base chain. No packet marks are needed.
//
// The table may change while a packet is in a base chain. The packet then still uses the old rules,
// but its lookups find the new elements of sets and maps. The last rules of the base chain detect
// such a packet: it is stale. A second base chain, NAME-again, evaluates each stale packet from the
// beginning.
//
// Each workload endpoint has two chains: from/... for packets that it sends, and to/... for packets
// that it receives. The chain from/... first drops packets with a false source. Then both chains
// accept packets of known connections, which are established connections that policy has allowed.
// Policy decides about the packets that are left.
//
// The chain sender looks the packet's interface up in a map, and jumps to the chain from/... of the
// endpoint. If policy must decide, the chain from/... by default records in the packet which
// outcome decides, and returns to the chain sender. (An outcome is a chain with a few rules of
// policy: see below.) The chain sender then jumps to the outcome.
//
// If the map lacks the interface of a workload, the chain sender records that the packet is denied.
//
// The chain receiver does the same for the endpoint that receives the packet. Its map leads to the
// chains to/... of the endpoints.
//
// These are the base chains, and the chains that lead to endpoints:
//
//	forward  accept most established packets; jump sender, receiver, host-forward-...; the verdict
//	input    neighbour discovery; jump sender, host-in; then what the host's settings say
//	output   drop packets to endpoints that are down, at fault or unknown; jump host-out
//
//	sender       interface -> from/NS/NAME, then outcome-egress/HASH    else denied if it is a workload's interface
//	receiver     interface -> to/NS/NAME, then outcome-ingress/HASH     else denied if it is a workload's interface
//
//	from/NS/NAME, to/NS/NAME    false sources, known connections; then policy
//
// By default, policy is written as lookups (package internal/outcome). The cost of a new connection
// then does not depend on the number of rules. A packet takes three steps:
//
//   - Address to class. A class consists of all addresses that are in the same IP sets and lists of
//     prefixes.
//   - Class to outcome. The outcome of a class has the rules that match its addresses. All
//     endpoints with the same policy form a group, and share one map from classes to outcomes.
//   - Outcome to decision. The outcome is a chain with a few rules on protocol and port.
//
// These are the chains, where DIR is ingress or egress:
//
//	classify-DIR                the class: which IP sets and lists of prefixes have the address
//	group-DIR/HASH              the number of the class's outcome for this group
//	outcome-DIR/HASH            the rules of tiers and profiles that match the class
//
// If the lookups of a group would cost more than the limits in Config.Classes, its policy is
// written as chains of rules. Usually, each policy has a chain of its own, and the chain of the
// tier jumps there. But if a policy has a Pass rule, its rules are in the chain of the tier itself.
// These are the chains:
//
//	from/NS/NAME, to/NS/NAME    each tier, each profile; a denial
//	tier-DIR/TIER/HASH          the policies of a tier in order, for all endpoints that have
//	                            the same ones: a jump to the chain of each policy, or its
//	                            rules if one of them is a Pass; then a denial, unless the
//	                            default action of the tier is Pass
//	pol-DIR/NS/NAME, prof-DIR/NAME   the rules
//
// With Config.Counters or VerdictLog, each rule that can decide has a chain of its own. The chains
// above jump to it:
//
//	allow/ID, deny/ID, pass/ID  counts, logs and decides
//
// A stale packet uses the old rules, but may find a new map element that leads to a new from/... or
// to/... chain. For the stale packet, the new chain is empty. So the packet returns, and the next
// rule records a denial. This denial has no effect, because the base chain NAME-again evaluates the
// packet from the beginning.
//
// Host endpoints and address translation add further chains. The file docs/nft.md shows all chains
// on a packet's way, and says which of them other programs may rely on. Comments such as S119 refer
// to the numbered cases of docs/semantics.md.
//
// A rule with the action Pass returns from the chain of the tier, without a decision.
//
// Until there is a decision, lookups keep the class and the outcome of a packet in its priority.
// Afterwards the packet gets its former priority back, if Config.Classes.Priorities lists it, and
// zero otherwise.
//
// All packets of an endpoint are dropped if the endpoint is down, or at fault because part of its
// policy cannot be rendered. This includes packets of established connections. Such an endpoint has
// no element in the map of senders, and its element in the map of receivers drops packets.
//
// If an interface has no endpoint, and its name does not begin with Config.InterfacePrefix, its
// packets are accepted. But if a host endpoint applies to the interface, the policy of this host
// endpoint decides.
//
// # Bridges
//
// In the hooks, packets of a bridge's port have the interface of the bridge. So there are maps for
// the bridges of Config.Bridges: bridge-senders4 and bridge-receivers4 (for IPv6: 6). These maps
// lead from a bridge and an address to the chain of the endpoint. The chains sender and receiver
// look packets up in these maps after the maps of interfaces. If no endpoint has the address, the
// packet is denied.
//
// # Host endpoints
//
// Policy of host endpoints has three stages. Untracked policy decides before connection tracking,
// and pre-DNAT policy before destination NAT. Each of these two stages has base chains of its own.
// The third stage is normal policy, which is in the same base chains as the policy of workloads.
//
// If an earlier stage allows a packet, the later stages in that direction do not apply. But nothing
// in the packet records that it was allowed. So the later stages first test the rules of the
// earlier stage again, without logging, in the chains recheck-... These chains take the
// connection's state and its original destination from connection tracking.
//
// There is one restriction, for translated connections. If pre-DNAT policy allows such a connection
// by a rule with a named port or a service, normal policy must allow the connection, too. Otherwise
// the table denies it, because the chains recheck-... cannot test this rule.
//
// A host endpoint that cannot be rendered allows its failsafe ports and known connections, and
// nothing else.
//
// The table decides as package policy/verdict does, with two exceptions:
//
//   - Neighbour discovery is also allowed at host endpoints, unless Config.DenyNeighbourDiscovery
//     is set.
//   - If the destination of a packet from the host is translated, untracked policy must allow the
//     packet at two interfaces. The first is the interface of the route to the original
//     destination. The second is the interface by which the packet leaves. At the second interface,
//     normal policy must allow the packet, too. Untracked policy cannot test named ports and
//     services at the second interface. So there, an untracked Deny or Pass rule for a named port
//     or a service denies packets to all ports. An untracked Deny or Pass rule that excludes a
//     named port denies packets to this port, too.
//
// # Parts
//
// Update marks objects as dirty. Flush renders dirty objects in this order:
//
//	ipSets          IP sets, and the policies and profiles that refer to them
//	policies        policies and profiles (ruleWriter: one rule of a policy or profile)
//	tiers           tiers: several endpoints may use the same one
//	endpoints       endpoints, of both kinds
//	  workloads       the chains of a workload endpoint
//	  hostEndpoints   the chains of a host endpoint
//	  attachments     the tiers, profiles and groups that an endpoint uses
//	lookups         the classes and outcomes of policy (package internal/outcome)
//	hosts           the interfaces that host endpoints govern (hostChains: the chains that jump to them)
//	blocked         the addresses of endpoints at ports of a bond or similar device (their packets are dropped)
//	baseChains      the base chains (verdicts: the chains that carry out decisions)
//	interfaces      the interfaces of workload endpoints (bridges: the addresses behind each bridge)
//	nat             address translation
//
// Two further types, statements and failsafes, make rules from the configuration alone. The file
// wire.go sets the references between the types.
//
// # Usage
//
// The Dataplane of package nft uses a Renderer. You can also use a Renderer alone, to see the table
// without a kernel:
//
//	r, err := render.New(render.Config{})
//	r.Update(batch)
//	table, errs := r.Table()
//	fmt.Print(table)
//
// # Concurrency
//
// A Renderer is not safe for concurrent use.
//
// # Errors
//
// Errors returns a *dataplane.ApplyError for each object that cannot be rendered. All packets of a
// workload endpoint at fault are dropped. A host endpoint at fault allows only failsafe ports and
// known connections.
package render
