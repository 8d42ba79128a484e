// SPDX-License-Identifier: Apache-2.0

// Package flows counts traffic between workloads, by the policy that allows or denies it. Rules of
// the nftables table log a verdict for each new connection, and connection tracking counts the
// packets and bytes of the connection. Package flows combines the two.
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
// To make the rules log verdicts, enable render.Config.VerdictLog. Write the function keyOf. It
// turns the addresses of a log entry into names, and the prefix of the entry into the decision and
// the rule. The prefix has the ID of the rule, and policy.RuleIDs returns the IDs of all rules of a
// policy. The kernel counts packets only if the sysctl net.netfilter.nf_conntrack_acct is set. Call
// Update at least every few minutes.
//
// # What is counted
//
// Several policies may decide about a connection. Between two workloads of the node, an egress
// policy of the source and an ingress policy of the destination decide. Each of them logs its
// verdict.
//
//   - If a policy allows a connection, the connection counts once for this policy, with all its
//     packets.
//   - If the ingress policy denies a connection, the connection may still count as allowed for the
//     egress policy.
//   - If a policy denies a connection, each dropped packet counts for this policy.
//   - Rules log a verdict on each packet of an allowed connection until there is a reply. If a
//     connection began before New, the connection counts only if there is a verdict on it after
//     New. It then counts with all its packets, including those before New.
//   - At most Config.MaxConnections connections at a time have their packets counted. The packets
//     of further connections are not counted: each verdict on them counts as a connection, and
//     Stats.Uncounted has the number of these verdicts.
//
// A log entry has only the headers of a packet, and no ID of a conntrack entry. So a Table finds
// the conntrack entries of a verdict by their Tuple: addresses, ports and protocol. Several entries
// may have the same Tuple, such as two pings between the same addresses. Each of these entries
// counts as a connection. The first entry counts as soon as there is a verdict on the Tuple. Each
// further entry counts once an Update has found this entry, or when the entry ends. If several
// policies have a verdict on the same Tuple, the packets of all its entries count for each policy.
//
// In some cases, a verdict allows a connection, but there is no conntrack entry with its Tuple:
//
//   - Untracked policy allows the connection.
//   - One policy allows the connection, and a later policy denies it.
//   - Pre-DNAT policy allows the connection, and destination NAT changes its destination.
//
// The packets of such a connection are not counted. If several such connections have the same
// Tuple, they count as one connection, which ends two minutes after its last verdict.
//
// # Memory
//
// The limits in Config bound the memory of a Table. When a new flow exceeds MaxFlows, it replaces
// the flow that was idle for longest. After a connection has ended, a Table keeps it for two
// minutes, or until the Table needs space for another one. If the Table missed the notification of
// the end, it removes the connection once two Updates, at least 10 seconds apart, have not found
// it.
//
// # Concurrency
//
// The methods of Table may be called from any goroutine. If an Update is running, another Update
// waits until it has ended.
//
// # Errors
//
// Only Update returns errors: those of its Source.
package flows
