// SPDX-License-Identifier: Apache-2.0

// Package conntrack reads the connection tracking table of a network namespace and ends flows: those that a change
// of policy turned from allowed to denied, and those of a moved address, which now belongs to another workload.
//
// Policy applies to the first packet of a flow only: rules accept established flows before it. If
// the entry of a flow is deleted from the table, its next packet is a first packet again.
//
//	ruleset ──Change(before, after)──▶ Sweeper                            kernel
//	                                   │ walks the table, part by part ◀── dump
//	                                   │ after(flow) == Denied,
//	                                   │ and before(flow) == Allowed?
//	                                   └ ends it, by tuple, zone and id ──▶ delete
//
// # What is ended
//
// A flow is ended if and only if the ruleset before a change allows its first packet and the ruleset
// after it denies that packet. So these continue:
//
//   - flows that the new ruleset allows, also if an earlier one of several quick changes denied
//     them;
//   - flows that the old ruleset denied as well: they began before there was a ruleset, or under
//     the rules of another program;
//   - flows for which either judge returns Unknown;
//   - a flow that ended meanwhile. If another one has the same tuples, the kernel refuses to
//     delete it by the former ID.
//
// The ID does not identify a flow with certainty: a new entry often gets the memory of the previous
// entry, and with it the ID. Such a flow has the same tuples, so it gets the same verdicts. Either it
// began under the old ruleset as well, or a later ruleset allowed it: flows in the queue are judged
// again after each change.
//
// If several changes precede a walk of the table, a flow is ended if the latest ruleset denies it
// and any of the others allowed it, because it may have begun under that one.
//
// If the size of the kernel's hash table (net.netfilter.nf_conntrack_buckets) changes during a
// walk, flows may be missed, and the kernel does not report that.
//
// An expected flow, such as an FTP data connection, gets the verdict of its master flow, as if the
// master's addresses were not translated.
//
// Conn.EndAddresses ends every flow with one of the addresses, as source or destination in either
// direction, before or after translation. Conn.EndHosts ends the flows whose packets an address
// sends or receives, and Conn.EndHostsFunc those of any set of addresses. They need no Judge: all
// flows of a moved address end. A Conn needs no Sweeper.
//
// # What an ended flow may do
//
// The next packet of either side is judged as the first of a new flow; neither side is notified. A
// packet of the client is denied. A packet of the server begins a flow from server to client. If
// policy allows that flow, the client's packets pass as its replies.
//
//   - TCP: the kernel picks up connections in the middle (net.netfilter.nf_conntrack_tcp_loose=1),
//     so an ended connection may continue in the other direction. A ruleset must therefore drop
//     TCP packets in state new that are no SYN: package nft does so with render.Config.TCPFromSYN.
//   - UDP: such a packet looks like the first one of a flow that the server may begin. Config.BeforeEnd gets the flows
//     before they end, so that rules can drop late packets: package nft does so.
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
//	ended, err := conn.EndHosts(ctx, movedAddresses...)
//
// # Concurrency
//
// A Conn is for one goroutine at a time. A Sweeper accepts changes from any goroutine. Step calls
// judges on its caller's goroutine, without holding a lock.
//
// # Errors
//
// A flow that the kernel refuses to end is an *EndError. ErrInterrupted: the table changed too fast
// to be read. ErrUnsupported: not Linux. After an error of Step the changes stay pending, and the next
// pass repeats the work.
package conntrack
