// SPDX-License-Identifier: Apache-2.0

// Package simulate computes what the kernel would do with a packet at a hook of an nftables table: the
// verdict, and the rules that lead to it. It needs no kernel.
//
// # Usage
//
// A Simulator is for many packets of one table. A packet comes with what connection tracking knows of
// it:
//
//	s, err := simulate.New(simulate.Config{Table: table})
//	result, err := s.Trace(ruleset.Input, packet, simulate.Conn{})
//	for _, step := range result.Trace {
//		fmt.Println(step.Chain, step.Rule, step.Comment, step.Verdict)
//	}
//
// Run does the same without the steps, and allocates nothing. It lets a packet through one hook;
// the caller decides which hooks the packet passes, and what routing and translation change between
// them.
//
// # Limits
//
// Rules with Raw expressions are refused: only the kernel knows what they do. Results of routing
// lookups are Packet.Facts, and whether limits are used up is Packet.OverLimit. Where the kernel would
// choose an address or port of a translation, Result.Translations names the statement only.
//
// # Concurrency
//
// A Simulator is safe for concurrent use, as long as nobody changes its Table or State.
//
// # Errors
//
// New fails for a table that does not validate or that has Raw expressions, Run and Trace for
// an impossible packet (ErrPacket). Of a State, Run and Trace fail at a chain with Raw expressions.
package simulate
