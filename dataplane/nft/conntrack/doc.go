// SPDX-License-Identifier: Apache-2.0

// Package conntrack reads the connection tracking table of a network namespace, and ends flows. A
// flow is an entry of that table. The package has two uses:
//
//   - After a change of policy, a Sweeper ends the flows that were allowed and are now denied.
//   - After an address has moved to another workload, a Conn ends the flows of the address.
//
// To end a flow, the package deletes its entry from the table. The next packet is then the first
// packet of a new flow. Only for the first packet of a flow does the ruleset evaluate policy.
//
//	ruleset ──Change(before, after)──▶ Sweeper                            kernel
//	                                   │ walks the table, part by part ◀── dump
//	                                   │ after(flow) == Denied,
//	                                   │ and before(flow) == Allowed?
//	                                   └ ends it, by tuple, zone and id ──▶ delete
//
// # Which flows end
//
// A Judge is a function that returns whether a ruleset allows the first packet of a flow. After a
// change of the ruleset, a Sweeper judges all flows; this is called a sweep. A flow ends if the old
// ruleset allows its first packet and the new ruleset denies it. All other flows continue, for
// example:
//
//   - flows that both rulesets deny: they began before there was a ruleset, or under the rules of
//     another program;
//   - flows for which the Judge of either ruleset returns Unknown.
//
// The ruleset may change several times before a sweep. A flow then ends if the latest ruleset
// denies it and at least one earlier ruleset allowed it.
//
// There are three special cases:
//
//   - A flow may end by itself, and a new flow with the same tuples and the same ID may begin. The
//     Sweeper may then end the new flow. The latest ruleset denies this flow, too, because its
//     tuples are the same.
//   - If the size of the kernel's hash table (net.netfilter.nf_conntrack_buckets) changes during a
//     sweep, the Sweeper may miss flows, and returns no error.
//   - A flow that the kernel expected because of another flow (its master), such as an FTP data
//     connection, gets the verdict of its master. The Sweeper judges the master as if its addresses
//     were not translated.
//
// # Moved addresses
//
// When an address moves to another workload, all flows of the address must end, whatever policy
// says. A Conn has three methods for this, which need no Judge:
//
//   - EndHosts ends flows whose source, or whose destination after destination NAT, is one of the
//     addresses.
//   - EndAddresses also ends flows that have one of the addresses before destination NAT or after
//     source NAT.
//   - EndHostsFunc does what EndHosts does, for the addresses that a function selects.
//
// # After a flow has ended
//
// Neither side is notified. If the client sends the next packet, policy denies it. But if the
// server sends the next packet, a new flow from server to client begins, which policy may allow.
// Packets of the client would then pass as replies. Rules must prevent this; those of package nft
// do:
//
//   - TCP: drop packets in state new that are not a SYN (render.Config.TCPFromSYN). Otherwise the
//     kernel by default accepts a packet from the middle of a connection as the first packet
//     (net.netfilter.nf_conntrack_tcp_loose=1).
//   - UDP: drop the late packets of the server. Config.BeforeEnd receives the flows before they
//     end, so that these rules can be made.
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
// Only one goroutine at a time may use a Conn. Any goroutine may call Sweeper.Change. Sweeper.Step
// calls each Judge on the goroutine of its caller, without holding a lock.
//
// # Errors
//
// An *EndError reports a flow that the kernel refused to end. ErrInterrupted means that the table
// changed too fast to be read. ErrUnsupported means that the system is not Linux. After an error of
// Step, the changes stay pending, and the next walk of the table repeats the work.
package conntrack
