// SPDX-License-Identifier: Apache-2.0

// Package flows counts traffic between workloads by the policy that allows or denies it. It aggregates the verdicts
// that rules log for each new connection, and the packets and bytes that connection tracking counts.
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
// The rules log with render.Config.VerdictLog. Write keyOf to resolve addresses and rules: the prefix of an entry has
// the decision and the ID of the rule, see policy.RuleIDs. The kernel counts packets only if
// net.netfilter.nf_conntrack_acct is set. Call Update at least every few minutes: it also removes connections whose end
// was missed.
//
// # What is counted
//
// A connection has a verdict of each policy that decides about it: between two workloads of the node, one of the policy
// for egress and one of that for ingress. Each of them counts the connection once and gets all its packets. If only
// the latter denies it, the former still counts it as allowed. Of a connection that is denied, each packet that is
// dropped counts. A connection whose verdicts were all logged before New is not counted. One without a reply has
// further verdicts: it is counted with the next one, with all its packets from its start. The packets of connections
// that exceed Config.MaxConnections do not count: see Stats.
//
// The verdict log has each packet until there is a reply, and its headers only. So a Table finds the conntrack entries
// of a verdict by their Tuple, and counts each entry on its own. Two pings between the same addresses have one Tuple:
// the second counts as a connection from the next Update, or from its end. All policies with verdicts about
// the Tuple get the packets of its entries.
//
// Untracked policy allows packets without a conntrack entry. Such packets are not counted. All of them with one Tuple
// are one connection, which ends after two minutes without a verdict. The same holds for a connection that a later
// policy denies. It also holds if pre-DNAT policy allows a connection and destination NAT changes its destination.
//
// # Memory
//
// Config has limits for all that grows. A flow over MaxFlows replaces the one that was idle for longest. A connection
// that has ended is kept for two minutes, or until another one needs its place. One that an Update does not find has
// perhaps ended: it keeps its place until an Update at least 10 seconds later does not find it either.
//
// # Concurrency
//
// The methods of Table may be called from any goroutine. None but Update waits for an Update.
//
// # Errors
//
// Only Update returns errors: those of its Source.
package flows
