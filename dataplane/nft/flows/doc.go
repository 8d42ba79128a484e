// SPDX-License-Identifier: Apache-2.0

// Package flows counts traffic between workloads, by the policy that allows or denies it. Rules log
// a verdict for each new connection, and connection tracking counts its packets and bytes. Package
// flows combines the two.
//
//	nftables ── verdicts (nflog) ──▶ Table.Verdict ─┐
//	                                                ├▶ flows by source, destination, port, verdict and policy
//	conntrack ── ends, counters ──▶ Table.Ended ────┘
//
// # Usage
//
//	table := flows.New(flows.Config{})
//	go conntrack.WatchEnded(ctx, conntrack.WatchConfig{Ended: table.Ended, Missed: table.Missed})
//	go nflog.Follow(ctx, nflog.Config{Group: 7}, func(e nflog.Entry) error {
//		table.Verdict(flows.Verdict{Key: keyOf(e), Tuple: flows.TupleOf(e), Length: e.Length})
//		return nil
//	})
//	err := table.Update(ctx, conn) // adds the packets of connections that have not ended
//	for _, flow := range table.Flows() {
//		fmt.Println(flow.Source, flow.Destination, flow.Bytes)
//	}
//
// To make the rules log, enable render.Config.VerdictLog. Write the function keyOf: it turns the
// addresses of a log entry into names, and the prefix of the entry into the decision and the rule.
// The prefix has the ID of the rule: see policy.RuleIDs. The kernel counts packets only if
// net.netfilter.nf_conntrack_acct is set. Call Update at least every few minutes. It also removes
// connections that have ended without a notification.
//
// # What is counted
//
// Several policies may decide about a connection. Between two workloads of the node, an egress
// policy of the source and an ingress policy of the destination decide. Each of them logs its
// verdict.
//
//   - For each verdict that allows, the connection counts once, with all its packets.
//   - If the ingress policy denies a connection, the egress policy may still count it as allowed.
//   - For a verdict that denies, each dropped packet counts.
//   - A connection that began before New counts from its next verdict on, with all its packets from
//     its start. If it has no further verdict, it does not count. Rules log verdicts until there is
//     a reply.
//   - If there are more than Config.MaxConnections connections, the packets of the others are not
//     counted: see Stats.
//
// A log entry has only the headers of a packet, and no ID of a conntrack entry. So a Table finds
// the conntrack entries of a verdict by their Tuple. It counts the packets of these entries for
// each policy that has a verdict on the Tuple. Each entry counts as a connection. For example, two
// pings between the same addresses have the same Tuple. The second one counts as a connection from
// the next Update on, or when it ends.
//
// In some cases, a verdict allows a connection, but there is no conntrack entry with its Tuple:
//
//   - Untracked policy allows the connection.
//   - One policy allows the connection, and a later policy denies it.
//   - Pre-DNAT policy allows the connection, and destination NAT changes its destination.
//
// Then its packets are not counted. All connections with such a Tuple count as one connection,
// which ends two minutes after its last verdict.
//
// # Memory
//
// The limits in Config bound the memory of a Table. When a new flow exceeds MaxFlows, it replaces
// the flow that was idle for longest. A Table keeps a connection that has ended for two minutes, or
// until it needs space for another one. If an Update does not find a connection, the connection may
// have ended. The Table removes it once an Update at least 10 seconds later does not find it
// either.
//
// # Concurrency
//
// The methods of Table may be called from any goroutine. An Update waits until another Update has
// ended.
//
// # Errors
//
// Only Update returns errors: those of its Source.
package flows
