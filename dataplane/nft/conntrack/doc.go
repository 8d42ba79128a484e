// SPDX-License-Identifier: Apache-2.0

// Package conntrack reads the connection tracking table of a network namespace, and ends flows. A
// flow is an entry of that table. The package has two uses. After a change of policy, it ends the
// flows that were allowed and are now denied. After an address has moved to another workload, it
// ends the flows of the address.
//
// Policy decides only about the first packet of a flow: the rules accept the other packets before
// they evaluate policy. To end a flow, the package deletes its entry from the table. To the kernel,
// the next packet is then the first packet of a new flow, and policy decides again.
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
// change of the ruleset, a Sweeper judges all flows (a sweep). It ends a flow if and only if the
// old ruleset allows its first packet and the new one denies it. So these flows continue:
//
//   - flows that the new ruleset allows, even if an earlier one of several quick changes denied
//     them;
//   - flows that both rulesets deny: they began before there was a ruleset, or under the rules of
//     another program;
//   - flows for which the Judge of either ruleset returns Unknown.
//
// If the ruleset changes several times before a sweep, the Sweeper ends a flow if the latest
// ruleset denies it and at least one earlier ruleset allowed it, because the flow may have begun
// under that earlier ruleset.
//
// A flow may end by itself before the Sweeper deletes its entry, and a new flow with the same
// tuples may begin. Usually the new flow has another ID, and the kernel refuses to delete it. But a
// new entry often gets the memory of the previous entry, and with it the same ID. Then the Sweeper
// deletes the entry of the new flow. This is right, because equal tuples get equal verdicts: the
// latest ruleset denies the new flow, too. If the ruleset changes before the deletion and allows
// these tuples, the new flow continues: after each change, the Sweeper judges again all flows that
// it is about to end.
//
// If the size of the kernel's hash table (net.netfilter.nf_conntrack_buckets) changes during a
// walk, the Sweeper may miss flows, and the kernel does not report that.
//
// The kernel expects some flows because of another flow, their master. An example is an FTP data
// connection. Such a flow gets the verdict of its master. The Sweeper judges the master as if its
// addresses were not translated, because the kernel returns only the original tuple of a master.
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
// Neither side is notified. To the kernel, the next packet of either side is the first packet of a
// new flow. Policy denies a packet of the client. But a packet of the server begins a flow from
// server to client, which policy may allow. Then the packets of the client pass as replies, and the
// connection continues.
//
//   - TCP: by default, the kernel accepts a first packet from the middle of a connection
//     (net.netfilter.nf_conntrack_tcp_loose=1). So that an ended connection cannot continue, the
//     ruleset must drop TCP packets that are in state new and are not a SYN. Package nft does so
//     with render.Config.TCPFromSYN.
//   - UDP: a late packet of the server looks like the first packet of a flow that the server may
//     begin. Config.BeforeEnd gets the flows before they end, so that rules can drop such late
//     packets. Package nft does so.
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
