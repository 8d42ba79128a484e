// SPDX-License-Identifier: Apache-2.0

// Package conntrack reads the connection tracking table of a network namespace and ends flows: those that a change
// of policy turned from allowed to denied, and those of an address that changed hands.
//
// The kernel asks policy about the first packet of a flow only. What is established goes on whatever policy says since,
// unless its entry is taken out of the table: then its next packet is a first packet again.
//
//	ruleset ──Change(before, after)──▶ Sweeper                            kernel
//	                                   │ walks the table, part by part ◀── dump
//	                                   │ after(flow) == Denied,
//	                                   │ and before(flow) == Allowed?
//	                                   └ ends it, by tuple, zone and id ──▶ delete
//
// # What is ended
//
// A flow is ended exactly if the ruleset before a change allows its first packet and the ruleset after it denies
// it. So these go on:
//
//   - what the new ruleset allows, also if an earlier one of several quick changes denied it;
//   - what the old ruleset denied as well: it began before there was a ruleset, or was let in by somebody else;
//   - what either judge cannot tell;
//   - a flow that ended meanwhile. If another of the same tuples took its place, the kernel refuses
//     to delete it by its id.
//
// The id is no proof, though: an entry that is made again at once mostly gets the memory, and so
// the id, of the one before. Such a flow has the same tuples, so the judges say the same of it.
// Either it began under the old ruleset as well, or a later one let it in: what waits to be ended
// is judged once more after each change.
//
// If several changes come before the table was walked, a flow is ended if the latest ruleset denies it and any
// of the others allowed it, because it may have begun under that one.
//
// If the size of the kernel's hash table (net.netfilter.nf_conntrack_buckets) is changed during a walk, flows may be
// missed, and the kernel does not say so.
//
// A flow that was let in because another announced it (an FTP data connection) is judged by that other one,
// as if it were not translated.
//
// Conn.EndAddresses ends every flow with one of the addresses, as source or destination in either
// direction, before or after translation. Conn.EndHosts ends the flows whose packets an address
// sends or receives, and Conn.EndHostsFunc those of any set of addresses. They need no Judge: an
// address that changes hands loses its flows whatever policy says. A Conn needs no Sweeper.
//
// # What an ended flow may do
//
// The next packet of either side is judged as the first of a new flow; nobody is told. If it is the
// client's, it is denied. If it is the server's, it begins a flow from server to client, and if
// policy allows that one, the client's packets pass as its replies.
//
//   - TCP: the kernel picks up connections in the middle (net.netfilter.nf_conntrack_tcp_loose=1),
//     so that a connection that was ended may go on the other way round. A ruleset that ends flows
//     therefore has to drop TCP packets in state new that are no SYN: package nft does so with
//     render.Config.TCPFromSYN.
//   - UDP: nothing tells such a packet from a flow that the server begins by right. Policy has to
//     deny that direction as well.
//
// # Usage
//
//	sweeper, err := conntrack.New(conntrack.Config{NetNS: fd})
//	...
//	before, after := judgeOf(ruleset), judgeOf(changed)
//	apply(changed)
//	sweeper.Change(before, after)
//	...
//	progress, err := sweeper.Step(ctx, budget) // again after progress.Wait, until progress.Done
//
// Conn lists, counts and ends flows, with or without a Sweeper:
//
//	conn, err := conntrack.Dial(conntrack.ConnConfig{NetNS: fd})
//	ended, err := conn.EndHosts(ctx, addressesThatMoved...)
//
// # Concurrency
//
// A Conn is for one goroutine. A Sweeper takes changes from any goroutine, and works on one, that
// of Step. It calls judges there, without holding a lock.
//
// # Errors
//
// A flow that the kernel refuses to end is an *EndError. ErrInterrupted: the table changed too fast to be read.
// ErrUnsupported: not Linux. What fails is tried again, as changes stay pending until a walk has covered them whole.
package conntrack
