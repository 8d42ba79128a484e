// SPDX-License-Identifier: Apache-2.0

// Package prove compares an nftables table with policy: it shows that a node enforces what was written,
// or which packets show that it does not.
//
//	world, settings ──▶ policy/verdict ────────────────┐
//	                                                   ├─▶ equal for each packet? ──▶ Report
//	table ──▶ ruleset/simulate, hooks on the way ──────┘
//	   └────▶ what rules, sets and maps tell apart ──▶ one packet of each kind
//
// Package verdict evaluates the resources; it shares no code with what made the table. Package applier
// shows that the kernel has the table: see applier.Compare.
//
// # Usage
//
//	report, err := prove.Table(ctx, prove.Config{World: world, Node: "n1", Table: table})
//	fmt.Print(report)
//
// # Packets
//
// Two packets are of one kind if no rule on either side tells them apart. So an address stands for all
// addresses that have the same answers to all conditions of the policies of this node (networks,
// selectors, named ports, services), and that are in the same elements of all sets and maps of the
// table, and in the same ranges of its rules. An address that only one side tells apart is of a kind of
// its own: a missing element, one too many, or a prefix that is off by one is found.
//
// A port, a protocol, or a value of a header field stands for those that neither the policies of the
// endpoint nor the rules that its packets can reach tell apart. There is one that nothing mentions. The
// source port varies only where something mentions it.
//
// These packets are compared, for each workload endpoint of the node and each kind of address:
//
//   - to and from the interfaces of the host (Config.HostInterface, and those of host endpoints);
//   - between any two endpoints of the node;
//   - to and from the node's own processes, if the world has an address of the node;
//   - from false sources, with a packet that policy allows from an address of the endpoint.
//
// Packets of a bridged endpoint have the interface of its bridge (Config.Bridges). Those with the address of
// another endpoint of the bridge are that one's, and not from a false source.
//
// For host endpoints: to and from the node's processes, and forwarded packets with one address of
// every kind and the other fixed. All hooks are on the way, so untracked and pre-DNAT policy count.
//
// The packets are the first of their connections. Report.NotProved lists what is left out, and
// Report.Incomplete what this table or world has that cannot be compared.
//
// # Cost
//
// Every packet is run through the table for every endpoint. Policy is evaluated once for packets that it
// cannot tell apart, and for endpoints whose policies, profiles and settings are equal and whose
// addresses these policies cannot tell apart. Each address of the world is classified once.
//
// # Concurrency
//
// Table may be called from several goroutines. World and table must not change meanwhile.
//
// # Errors
//
// Table returns an error if it cannot compare. A difference is no error.
package prove
