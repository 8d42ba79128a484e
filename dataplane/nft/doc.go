// SPDX-License-Identifier: Apache-2.0

// Package nft is the nftables backend: a Dataplane that programs policy into one table, over netlink.
//
//	events ──▶ render ──▶ ruleset.Delta ──▶ applier ──▶ nf_tables
//
// Package render describes the table.
//
// # What it does not see
//
// Frames that a bridge forwards between its own ports do not pass these hooks, unless
// net.bridge.bridge-nf-call-iptables and -ip6tables are set. Packets that are routed to or from a
// port pass them with the bridge as their interface. Endpoints behind the bridges of
// render.Config.Bridges are told apart by their addresses. Any other endpoint whose interface is a
// port of a bridge or another master is at fault, and packets that are routed to or from its
// addresses drop. Of tunnels that a workload opens itself, those of
// policy.HostConfig.ForbiddenEncapsulations drop. Policy decides about others by the outer header.
// Those of policy.HostConfig.NodeEncapsulations that are for the host drop unless their source is an
// address of a node.
//
// # Stale connections
//
// An established connection continues if policy denies it later. With conntrack.End as
// Config.ConntrackPolicy, a goroutine of the Dataplane ends each connection whose first packet the
// old ruleset allows and the new one denies. The connections of an address that changes hands
// always end: Apply ends them before it admits the new owner. The file docs/nft.md describes the
// limits and the cost.
//
// # Usage
//
// Use the Dataplane, by way of a dataplane.Driver. The Renderer of package render shows the table
// without a kernel.
//
// # Concurrency
//
// Nothing in this package is safe for concurrent use unless documented.
//
// # Errors
//
// What cannot be rendered or programmed is reported as *dataplane.ApplyError with the key of the
// object at fault, for each object; everything else is programmed all the same.
package nft
