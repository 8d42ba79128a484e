// SPDX-License-Identifier: Apache-2.0

// Package simulate computes what the kernel would do with a packet at one hook of an nftables
// table. The result is the verdict, and the rules that lead to it. The package needs no kernel.
//
// # Usage
//
// A Simulator runs many packets through one table. Its Config has the table as a Table or as a
// State. A Conn is what connection tracking knows about a packet:
//
//	s, err := simulate.New(simulate.Config{Table: table})
//	result, err := s.Trace(ruleset.Input, packet, simulate.Conn{})
//	for _, step := range result.Trace {
//		fmt.Println(step.Chain, step.Rule, step.Comment, step.Verdict)
//	}
//
// Run does what Trace does, without recording steps. Both run the packet through a single hook. The
// caller decides which hooks a packet passes, and what routing and address translation change
// between the hooks.
//
// # Limits
//
// The simulator refuses rules with Raw expressions, because only the kernel knows their effect. The
// caller must set the results of routing lookups (Packet.Facts), and whether the packet exceeds the
// limits in rules (Packet.OverLimit). If the kernel itself chooses the new address or port when it
// translates a packet, Result.Translations does not have this address or port.
//
// A lookup in an interval set with several key fields takes time in proportion to the set.
//
// # Concurrency
//
// A Simulator is safe for concurrent use as long as its Table or State does not change.
//
// # Errors
//
// New returns an error if the Table is not valid or has Raw expressions. New does not check a
// State: Run and Trace return an error once a packet enters a chain of the State that has Raw
// expressions. They also return ErrPacket if the addresses of a packet are missing or of different
// families, and ErrFrame if a frame cannot be simulated.
package simulate
