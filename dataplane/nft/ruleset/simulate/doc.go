// SPDX-License-Identifier: Apache-2.0

// Package simulate computes what the kernel would do with a packet at one hook of an nftables
// table: the verdict, and the rules that lead to it. It needs no kernel.
//
// # Usage
//
// A Simulator runs many packets through one table. A Conn is what connection tracking knows about a
// packet:
//
//	s, err := simulate.New(simulate.Config{Table: table})
//	result, err := s.Trace(ruleset.Input, packet, simulate.Conn{})
//	for _, step := range result.Trace {
//		fmt.Println(step.Chain, step.Rule, step.Comment, step.Verdict)
//	}
//
// Run does what Trace does, without recording steps. Both run the packet through a single hook. The
// caller decides which hooks a packet passes, and what routing and translation change between them.
//
// # Limits
//
// The simulator refuses rules with Raw expressions, because only the kernel knows their effect. The
// caller must set the results of routing lookups (Packet.Facts), and whether the packet exceeds the
// limits in rules (Packet.OverLimit). If the kernel would choose the new address or port of a
// translation, Result.Translations does not have it.
//
// # Concurrency
//
// A Simulator is safe for concurrent use as long as nobody changes its Table or State.
//
// # Errors
//
// New fails if the table is not valid or has Raw expressions. Run and Trace fail for an impossible
// packet (ErrPacket, ErrFrame). With a State, they also fail if the packet enters a chain with Raw
// expressions.
package simulate
