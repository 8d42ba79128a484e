// SPDX-License-Identifier: Apache-2.0

// Package nft is the nftables backend: a pure Renderer that turns events into the table
// they call for, and a Dataplane that programs that table over netlink.
//
// # The table
//
// One table of the inet family judges both families. Each hook has one base chain for what
// the sender may send and, where there is a receiver, a later one for what the receiver may
// receive; an accept in the first goes on to the second, so no packet marks are needed.
//
//	forward -10  (interface, source) -> from/NS/NAME     else drop if the interface is ours
//	forward  -9  interface           -> to/NS/NAME       else drop if it has our prefix
//	input   -10  as forward -10, after neighbour discovery
//	input    -9  what EndpointToHost says
//	output  -10  drop to endpoints that are down, at fault or unknown
//
//	from/NS/NAME, to/NS/NAME    known connections; then each tier, each profile; drop
//	tier-DIR/TIER/HASH          one tier's policies in order, for all endpoints that have
//	                            just these: policy chains, or the rules of policies that
//	                            pass; then drop, unless the tier passes by default
//	pol-DIR/NS/NAME, prof-DIR/NAME   the rules
//
// Allow is accept, Deny is drop, Pass is a return from the tier's chain. An endpoint that is
// down, or uses anything that cannot be rendered, is in no map of sources: all it sends or is sent drops,
// established connections included. Traffic of interfaces that are neither an endpoint's nor
// begin with our prefix passes untouched.
//
// # What it does not see
//
// Frames that a bridge forwards between its own ports do not pass these hooks: workloads must be routed, not
// bridged. What the host's own processes send to a workload is allowed. Tunnels that a workload opens itself (VXLAN, IPIP) are
// judged like any other packet of theirs, not by what is inside.
//
// Host endpoints are not programmed yet: their events are passed over, and policies that are for host endpoints
// alone make chains that nothing refers to. Floating addresses and the sources that a workload may send from besides its
// own are passed over too, which lets less through.
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
