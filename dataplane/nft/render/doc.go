// SPDX-License-Identifier: Apache-2.0

// Package render translates events into changes of an nftables table. It uses neither the kernel
// nor a clock.
//
//	events ──▶ Renderer ──▶ ruleset.Delta
//
// # The table
//
// One table of family inet filters IPv4 and IPv6. In each of the hooks forward, input, output and
// postrouting, one base chain has all normal policy: all policy except untracked and pre-DNAT
// policy of host endpoints. The base chain jumps to chains of policy. These record their decision
// in the packet's priority (skb->priority) and return, so no packet marks are needed. At its end,
// the base chain checks that the packet used one state of policy. A packet that may have used parts
// of two states is stale: the base chain NAME-again evaluates it from the beginning.
//
//	forward  accept most established packets; jump sender, receiver, host-forward-...; the verdict
//	input    neighbour discovery; jump sender, host-in; then what the host's settings say
//	output   drop packets to endpoints that are down, at fault or unknown; jump host-out
//
//	sender       interface -> from/NS/NAME, then outcome-egress/HASH    else denied if the interface is ours
//	receiver     interface -> to/NS/NAME, then outcome-ingress/HASH     else denied if the interface is ours
//
//	from/NS/NAME, to/NS/NAME    false sources, known connections; then policy
//
// By default, policy is written as lookups (package internal/outcome). A packet takes three steps:
// the class of the other side's address, the outcome of this class for the group of endpoints with
// the same policy, and a chain of a few rules on protocol and port. So the cost of a new connection
// does not depend on the number of rules.
//
//	classify-DIR                the class: which IP sets and lists of prefixes have the address
//	group-DIR/HASH              the number of the class's outcome for this group
//	outcome-DIR/HASH            the rules of tiers and profiles that hold for the class
//
// A group whose lookups would cost too much is written as chains of rules. Config.Classes has the
// limits:
//
//	from/NS/NAME, to/NS/NAME    each tier, each profile; a denial
//	tier-DIR/TIER/HASH          one tier's policies in order, for all endpoints that have
//	                            just these: policy chains, or the rules of policies that
//	                            pass; then a denial, unless the tier passes by default
//	pol-DIR/NS/NAME, prof-DIR/NAME   the rules
//
// With Config.Counters or VerdictLog, each rule that decides has a chain of its own. The chains
// above lead to it:
//
//	allow/ID, deny/ID, pass/ID  counts, logs and decides
//
// A packet uses the generation of rules in which it entered the base chain, but the current
// elements of maps. So a packet on the previous generation may follow a new map element to a new
// from/... or to/... chain. To this packet, the chain is empty: it returns without a recorded
// decision. The rule after the map then records that the packet is denied. The check at the end of
// the base chain finds that the packet is stale, and the base chain NAME-again evaluates it.
//
// Host endpoints and address translation add further chains. The file docs/nft.md shows all chains
// on a packet's way, and says which of them others may rely on. Comments such as S119 refer to the
// numbered cases of docs/semantics.md.
//
// Allow and Deny record the decision in the packet's priority and return. Pass returns from the
// tier's chain. Lookups also keep the packet's class and outcome in its priority. After policy has
// decided, the priority is restored.
//
// All packets of an endpoint drop if the endpoint is down, or at fault because part of its policy
// cannot be rendered. This includes packets of established connections. Such an endpoint is not in
// the map of senders, and its element in the map of receivers drops.
//
// Other interfaces are those that have no endpoint and whose names do not begin with
// Config.InterfacePrefix. Packets of these interfaces are accepted. But if a host endpoint governs
// such an interface, its policy decides.
//
// # Bridges
//
// The hooks see packets of a bridge's port with the interface of the bridge. So for the bridges of
// Config.Bridges, the maps bridge-senders4 and bridge-receivers4 (and 6) lead from bridge and
// address to the chain of the endpoint. The chains sender and receiver look up the maps of
// interfaces and then these maps. They record that packets with any other address are denied.
//
// # Host endpoints
//
// Untracked policy decides before connection tracking, and pre-DNAT policy before destination NAT.
// Each of the two stages has base chains of its own. Normal policy of host endpoints is in the base
// chains of workloads.
//
// A packet that an earlier stage allows skips the later stages in that direction. No mark records
// that it was allowed. So in the later stages, the chains recheck-... test the same rules again,
// without logging. They use the state and the original destination of the connection. For a
// translated connection, they cannot test named ports or services of pre-DNAT policy: such a
// connection must also pass normal policy, so less is allowed.
//
// A host endpoint that cannot be rendered allows its failsafe ports and known connections, and
// nothing else.
//
// The table decides as package policy/verdict does, with two exceptions:
//
//   - Neighbour discovery is also allowed at host endpoints, unless Config.DenyNeighbourDiscovery
//     is set.
//   - The destination of a packet from the host may be translated. Untracked policy must then allow
//     the packet twice: at the interface of its original route, and at the interface by which it
//     leaves. At the second interface the packet is tracked, so normal policy applies, too. There,
//     rules cannot match named ports and services: a rule that denies by them denies all ports.
//
// # Parts
//
// Update marks objects as dirty. Flush renders dirty objects in this order:
//
//	ipSets          IP sets, and the policies and profiles that refer to them
//	policies        policies and profiles (ruleWriter: one rule of theirs)
//	tiers           tiers, which endpoints share
//	endpoints       endpoints, of both kinds
//	  workloads       the chains of a workload endpoint
//	  hostEndpoints   the chains of a host endpoint
//	  attachments     the tiers, profiles and groups that an endpoint uses
//	lookups         the classes and outcomes of policy (package internal/outcome)
//	hosts           the interfaces that host endpoints govern (hostChains: the chains that jump to them)
//	blocked         the addresses of endpoints behind a master
//	baseChains      the base chains (verdicts: the chains that carry out decisions)
//	interfaces      the interfaces of workload endpoints (bridges: the addresses behind each bridge)
//	nat             address translation
//
// The types statements and failsafes build rules from the configuration alone. wire.go connects the
// types.
//
// # Usage
//
// The Dataplane of package nft uses a Renderer. A Renderer alone shows the table without a kernel:
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
// workload endpoint at fault drop. A host endpoint at fault allows only failsafe ports and known
// connections.
package render
