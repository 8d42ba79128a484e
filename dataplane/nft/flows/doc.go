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
// The rules log if render.Config.VerdictLog is enabled. Write a function keyOf that resolves
// addresses and rules. The prefix of an entry has the decision and the ID of the rule: see
// policy.RuleIDs. The kernel counts packets only if net.netfilter.nf_conntrack_acct is set. Call
// Update at least every few minutes, because it also removes connections whose end was missed.
//
// # What is counted
//
// Each policy that decides about a connection has a verdict on it. Between two workloads of the
// node, there is one verdict of egress policy and one of ingress policy.
//
//   - For each verdict, the connection is counted once, with all its packets.
//   - If only the ingress policy denies a connection, the egress policy still counts it as allowed.
//   - If a connection is denied, each packet that is dropped counts.
//   - A connection whose verdicts were all logged before New is not counted. A connection without a
//     reply has further verdicts: it is counted with the next one, with all its packets from its
//     start.
//   - The packets of connections over Config.MaxConnections are not counted: see Stats.
//
// The verdict log has each packet until there is a reply, and only its headers. So a Table finds
// the conntrack entries of a verdict by their Tuple, and counts each entry separately. For all
// policies with verdicts on the Tuple, the packets of its entries are counted. Two pings between
// the same addresses have the same Tuple: the second one counts as a connection from the next
// Update on, or when it ends.
//
// Some connections are allowed without a conntrack entry of their Tuple: those that untracked
// policy allows. Their packets are not counted. All such connections with one Tuple count as one,
// which ends two minutes after its last verdict. The same holds for a connection that a later
// policy denies. It also holds if pre-DNAT policy allows a connection and destination NAT changes
// its destination.
//
// # Memory
//
// Config limits everything that grows. A flow over MaxFlows replaces the flow that was idle for
// longest. A connection that has ended is kept for two minutes, or until another one needs its
// place. If an Update does not find a connection, the connection has perhaps ended. The Table keeps
// it until an Update at least 10 seconds later does not find it either.
//
// # Concurrency
//
// The methods of Table may be called from any goroutine. Only Update may wait for another Update.
//
// # Errors
//
// Only Update returns errors: those of its Source.
package flows
