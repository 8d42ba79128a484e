// SPDX-License-Identifier: Apache-2.0

// Package nft is the nftables backend: a pure Renderer that turns events into what has to become different in a table,
// and a Dataplane that programs it over netlink.
//
//	events ──▶ Renderer ──▶ ruleset.Delta ──▶ applier ──▶ nf_tables
//
// # The table
//
// One table of the inet family judges both families. Each hook has one base chain for what
// the sender may send and, where there is a receiver, another for what the receiver may
// receive; an accept in the one goes on to the other, so no packet marks are needed.
//
//	forward  interface           -> from/NS/NAME     else drop if the interface is ours
//	forward  interface           -> to/NS/NAME       else drop if it has our prefix
//	input    as forward for what is sent, after neighbour discovery; then what the host's settings say
//	output   drop to endpoints that are down, at fault or unknown
//
//	from/NS/NAME, to/NS/NAME    false sources, known connections; then policy
//
// Policy of workloads is lookups: the class of the other side's address, its outcome for the group of endpoints that have just this policy, and a chain of
// few rules on protocol and port (class_*.go). What a new flow costs does not depend on how much policy there is.
//
//	classify-DIR                the class: which IP sets and lists of prefixes the address is in
//	group-DIR/HASH              its outcome
//	outcome-DIR/HASH            what tiers and profiles come to for it
//
// Policy of host endpoints is chains of rules, and so is that of workloads where there are too many classes or RendererConfig.Classes says so:
//
//	from/NS/NAME, to/NS/NAME    each tier, each profile; drop
//	tier-DIR/TIER/HASH          one tier's policies in order, for all endpoints that have
//	                            just these: policy chains, or the rules of policies that
//	                            pass; then drop, unless the tier passes by default
//	pol-DIR/NS/NAME, prof-DIR/NAME   the rules
//
// The maps lead to these chains by jump, and each such chain ends in a verdict. To a packet that the kernel judges by the rules of before while it finds
// the elements of afterwards, a new chain is empty: it comes back, and drops behind the map.
//
// Host endpoints and address translation add chains of their own where there are any. The file docs/nft.md shows all chains
// on a packet's way, and what of them is for others to rely on.
//
// In chains, Allow is accept, Deny is drop (or a rejection), Pass is a return from the tier's chain. In lookups, what a packet has been found to be is in its priority
// (skb->priority) until policy has decided; then it has its own again. An endpoint that is
// down, or uses anything that cannot be rendered, is not in the map of senders, and in that of receivers drops: all it sends or is sent does,
// established connections included. Traffic of interfaces that are neither an endpoint's nor
// begin with our prefix passes untouched, unless a host endpoint governs them.
//
// # Host endpoints
//
// Untracked policy stands before connection tracking, pre-DNAT policy between that and destination NAT, the
// rest where workloads' policy is. What the first two have allowed passes over the rest in the same direction: as
// no mark says so, the later chains find it out again, by the same rules without their logs, from the state of the connection and
// the destination that it had at first. Pre-DNAT policy by named ports or services of the destination is found out again only for
// connections that were not translated: the others are judged by the policy of the host endpoint as well, which lets less through.
//
// A host endpoint that cannot be rendered lets its failsafe ports and known connections through, and nothing else.
//
// Verdicts are those of policy/verdict, with two exceptions: neighbour discovery is let through also at
// host endpoints, unless RendererConfig.DenyNeighbourDiscovery says otherwise; and what the host itself sends to an address that is
// translated must be let through by untracked policy both at the interface that it would leave by without that, and at the one that
// it leaves by, where what it allows is judged by the other policy as well, for it is tracked by then. Named ports and services of the
// destination cannot be looked up there any more: a rule that denies by them denies all ports.
//
// # What it does not see
//
// Frames that a bridge forwards between its own ports do not pass these hooks: workloads must be routed, not
// bridged. Of tunnels that a workload opens itself, VXLAN on its port and IP in IP drop by default; others are
// judged like any other packet of theirs, not by what is inside.
//
// # Stale connections
//
// Established connections go on when policy turns against them. With Config.ConntrackPolicy a goroutine of the Dataplane's ends those whose first packet the
// ruleset before a change allows and the one after it denies; Apply itself ends those of addresses that changed hands. The file docs/nft.md says what is
// judged, and what cannot be.
//
// # Usage
//
// Use the Dataplane, by way of a dataplane.Driver. The Renderer alone shows the table without a
// kernel:
//
//	r, err := nft.NewRenderer(nft.RendererConfig{})
//	r.Update(batch)
//	table, errs := r.Table()
//	fmt.Print(table)
//
// # Concurrency
//
// Nothing in this package is safe for concurrent use unless its own doc says so.
//
// # Errors
//
// What cannot be rendered or programmed is reported as *dataplane.ApplyError with the key of the
// object at fault, for each object; everything else is programmed all the same.
package nft
