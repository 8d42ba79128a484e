// SPDX-License-Identifier: Apache-2.0

// Package render turns events into what has to become different in an nftables table. It is pure: no
// kernel, no clock.
//
//	events ──▶ Renderer ──▶ ruleset.Delta
//
// # The table
//
// One inet table filters IPv4 and IPv6. In the hooks forward, input, output and postrouting, one
// base chain has all normal policy. Its last rules check that the packet used one state of it.
// Other packets are stale: the base chain NAME-again evaluates them from the beginning. Policy
// records its decision in the packet's priority and returns, so no packet marks are needed.
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
// Policy is written as lookups (internal/outcome): the class of the other side's address, its outcome
// for the group of endpoints with just this policy, and a chain of a few rules on protocol and port.
// The cost of a new flow does not depend on the number of rules.
//
//	classify-DIR                the class: which IP sets and lists of prefixes the address is in
//	group-DIR/HASH              the number of its outcome; the chain of a host endpoint's group goes on
//	outcome-DIR/HASH            what tiers and profiles decide for it
//
// A group over a limit of Config.Classes is written as chains of rules:
//
//	from/NS/NAME, to/NS/NAME    each tier, each profile; a denial
//	tier-DIR/TIER/HASH          one tier's policies in order, for all endpoints that have
//	                            just these: policy chains, or the rules of policies that
//	                            pass; then a denial, unless the tier passes by default
//	pol-DIR/NS/NAME, prof-DIR/NAME   the rules
//
// With Config.Counters or VerdictLog, a rule that decides has a chain of its own, to which all of
// these chains lead:
//
//	allow/ID, deny/ID, pass/ID  counts, logs and decides
//
// The maps jump to from/... and to/... chains. A packet on the previous generation uses the new
// elements of a map, but to it a new chain is empty: it returns without a recorded decision. The
// rule after the map records that it is denied. The check of the epoch then finds that the packet
// is stale, and the base chain NAME-again evaluates it.
//
// Host endpoints and address translation add chains of their own where there are any. The file
// docs/nft.md shows all chains on a packet's way, and what of them is for others to rely on.
//
// Allow and Deny record the decision in the packet's priority (skb->priority) and return. Pass is a
// return from the tier's chain. Lookups also keep the packet's class and outcome in its priority,
// which is restored after policy has decided. An endpoint that is down, or at fault because part of
// its policy cannot be rendered, is not in the map of senders, and drops in the map of receivers.
// So all of its packets drop, those of established connections included. Traffic of interfaces that
// are neither an endpoint's nor begin with our prefix passes untouched, unless a host endpoint
// governs them.
//
// # Bridges
//
// The hooks see the packets of a bridge's port with the interface of the bridge. So the maps
// bridge-senders4 and bridge-receivers4 (and 6) lead from a bridge of Config.Bridges and an address to
// the chain of the endpoint. The chains sender and receiver look them up after the maps of
// interfaces, and record that packets with other addresses are denied.
//
// # Host endpoints
//
// Untracked policy is before connection tracking, pre-DNAT policy before destination NAT, in base
// chains of their own. Normal policy is in the base chains of workloads. A packet that an earlier
// stage allows skips the later ones in that direction. No mark records that it did. So the chains
// recheck-... test the same rules once more, without logs, by the connection's state and original
// destination. For a translated connection, they cannot test named ports or services of pre-DNAT
// policy. Such a connection must also pass normal policy, so less is allowed.
//
// A host endpoint that cannot be rendered allows its failsafe ports and known connections, and
// nothing else.
//
// Verdicts are those of policy/verdict, with two exceptions. Neighbour discovery is allowed at host
// endpoints too, unless Config.DenyNeighbourDiscovery is set. If a packet that the host sends is
// translated, untracked policy must allow it at the interface of its original route and at the one
// that it leaves by. At the second it is tracked, so normal policy applies too. Named ports and
// services cannot be matched there: a rule that denies by them denies all ports.
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
// The Dataplane of package nft uses a Renderer. Alone it shows the table without a kernel:
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
// Errors returns a *dataplane.ApplyError for each object that cannot be rendered. A workload
// endpoint at fault drops all packets. A host endpoint at fault allows only failsafe ports and known
// connections.
package render
