// SPDX-License-Identifier: Apache-2.0

// Package simulate computes what the kernel would do with a packet at a hook of an nftables table: the
// verdict, and the rules that lead to it. It needs no kernel.
//
// # Usage
//
// A Simulator runs many packets through one table. A Conn is the state that connection tracking has
// of a packet:
//
//	s, err := simulate.New(simulate.Config{Table: table})
//	result, err := s.Trace(ruleset.Input, packet, simulate.Conn{})
//	for _, step := range result.Trace {
//		fmt.Println(step.Chain, step.Rule, step.Comment, step.Verdict)
//	}
//
// Run does the same without the steps. It runs a packet through one hook: the caller decides which
// hooks the packet passes, and what routing and translation change between them.
//
// # Limits
//
// Rules with Raw expressions are refused: only the kernel knows what they do. The caller sets the
// results of routing lookups (Packet.Facts), and whether limits are exceeded (Packet.OverLimit). If
// the kernel would choose an address or port of a translation, Result.Translations has no value for it.
//
// # Concurrency
//
// A Simulator is safe for concurrent use, as long as nobody changes its Table or State.
//
// # Errors
//
// New fails for a table that does not validate or that has Raw expressions, Run and Trace for
// an impossible packet (ErrPacket). With a State, Run and Trace fail at a chain with Raw expressions.
package simulate
