// SPDX-License-Identifier: Apache-2.0

// Package conntrack reads the connection tracking table of a network namespace, and ends flows. A
// flow is an entry of that table. Two kinds of flows are ended: those that a change of policy
// turned from allowed to denied, and those of a moved address, which now belongs to another
// workload.
//
// Policy applies only to the first packet of a flow, because rules accept established flows before
// policy. If the entry of a flow is deleted from the table, the flow's next packet is a first
// packet again.
//
//	ruleset ──Change(before, after)──▶ Sweeper                            kernel
//	                                   │ walks the table, part by part ◀── dump
//	                                   │ after(flow) == Denied,
//	                                   │ and before(flow) == Allowed?
//	                                   └ ends it, by tuple, zone and id ──▶ delete
//
// # Which flows end
//
// A Judge tells for a flow whether a ruleset allows its first packet. After a change of the
// ruleset, a Sweeper ends a flow if and only if the old ruleset allows its first packet and the new
// one denies it. So these flows continue:
//
//   - flows that the new ruleset allows, even if an earlier one of several quick changes denied
//     them;
//   - flows that both rulesets deny: they began before there was a ruleset, or under the rules of
//     another program;
//   - flows for which either judge returns Unknown.
//
// If a flow has ended meanwhile and a new flow has the same tuples, the kernel refuses to delete
// the new flow, because its ID is different. But the ID does not always differ: a new entry often
// gets the memory of the previous entry, and with it the ID. Then the new flow is ended. This is
// right if the new flow began under the old ruleset, because equal tuples get equal verdicts. If a
// later ruleset allowed it, it is not ended: after each change, the flows that are queued to end
// are judged again.
//
// If several changes precede a walk of the table, a flow is ended if the latest ruleset denies it
// and any of the earlier ones allowed it, because it may have begun under that ruleset.
//
// If the size of the kernel's hash table (net.netfilter.nf_conntrack_buckets) changes during a
// walk, flows may be missed, and the kernel does not report that.
//
// An expected flow, such as an FTP data connection, gets the verdict of its master: the flow
// because of which it was expected. The verdict is the one that the master would get if its
// addresses were not translated.
//
// # Moved addresses
//
// All flows of a moved address end, so no Judge and no Sweeper is needed. Conn has three methods
// for this:
//
//   - EndHosts ends the flows whose packets an address sends or receives.
//   - EndAddresses also ends flows with one of the addresses before destination NAT or after source
//     NAT.
//   - EndHostsFunc does what EndHosts does, for any set of addresses.
//
// # After a flow has ended
//
// The next packet of either side is judged as the first packet of a new flow. Neither side is
// notified. A packet of the client is denied. A packet of the server begins a flow from server to
// client. If policy allows that flow, the client's packets pass as its replies.
//
//   - TCP: the kernel picks up connections in the middle (net.netfilter.nf_conntrack_tcp_loose=1),
//     so an ended connection may continue in the other direction. To prevent this, a ruleset must
//     drop TCP packets in state new that are no SYN. Package nft does so with
//     render.Config.TCPFromSYN.
//   - UDP: a packet of the server looks like the first packet of a flow that the server may begin.
//     Config.BeforeEnd gets the flows before they end, so that rules can drop these late packets.
//     Package nft does so.
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
// Only one goroutine at a time may use a Conn. A Sweeper accepts changes from any goroutine. Step
// calls judges on the goroutine of its caller, and holds no lock meanwhile.
//
// # Errors
//
// A flow that the kernel refuses to end is an *EndError. ErrInterrupted means that the table
// changed too fast to be read, ErrUnsupported that the system is not Linux. After an error of Step
// the changes stay pending, and the next pass repeats the work.
package conntrack
