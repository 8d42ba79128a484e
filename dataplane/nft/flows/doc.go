// SPDX-License-Identifier: Apache-2.0

// Package flows counts which workloads talk to each other, and which policy allows or denies that. It aggregates what
// rules log about each new connection, and the packets and bytes that connection tracking counts.
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
//	err := table.Update(ctx, conn) // the counters of connections that go on
//	for _, flow := range table.Flows() {
//		fmt.Println(flow.Source, flow.Destination, flow.Bytes)
//	}
//
// The rules log with render.Config.VerdictLog. keyOf resolves addresses and rules: the prefix of an entry is the
// decision and the ID of the rule, see policy.RuleIDs. The kernel counts packets only if
// net.netfilter.nf_conntrack_acct is set. Call Update at least every few minutes: it also finds connections whose end
// was missed.
//
// # What is counted
//
// A connection between two workloads of the node has two verdicts: one of the policy for egress, one of that for
// ingress. Both get its packets. If only the latter denies it, the former still counts it as allowed. Of a connection
// that is denied, each packet that is dropped counts. Connections from before the first verdict do not count. The
// packets of those that exceed Config.MaxConnections do not count either: see Stats. Connections of ICMP between the
// same two addresses count as one while they overlap.
//
// # Memory
//
// Config has limits for all that grows. A flow over MaxFlows replaces the one that was idle for longest.
//
// # Concurrency
//
// The methods of Table may be called from any goroutine.
//
// # Errors
//
// Only Update returns errors: those of conntrack.Conn.
package flows
