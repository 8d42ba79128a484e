// SPDX-License-Identifier: Apache-2.0

// Package ruleset is a typed model of one nftables table. Package render makes such tables from
// policy, and package applier programs them. The model itself does not depend on policy.
//
// # Usage
//
// Build a Table from plain values, check it, and print or program it:
//
//	t := &ruleset.Table{Name: "wayleave", Chains: []*ruleset.Chain{{
//		Name: "in",
//		Hook: &ruleset.Hook{Point: ruleset.Input, Policy: ruleset.Verdict{Kind: ruleset.Accept}},
//		Rules: []ruleset.Rule{{
//			Matches: []ruleset.Match{ruleset.Compare{Field: ruleset.L4Proto, Value: ruleset.Byte(253)}},
//			Statements: []ruleset.Statement{ruleset.Verdict{Kind: ruleset.Drop}},
//		}},
//	}}}
//	t.Normalize()
//	if err := t.Validate(); err != nil { ... }
//	fmt.Print(t) // loads with nft -f
//
// String returns nft syntax, close to the output of "nft list" 1.0.6. Parse reads this syntax, or a
// listing of nft, into a Table. Diff returns the operations that turn one table into another.
// Script writes operations for nft -f.
//
// To change a table repeatedly, keep a State of the table, and describe each change by a Delta.
// Prepare checks the change and finds the fewest operations. Its time depends on the size of the
// change, not of the table. Commit applies the change to the State:
//
//	state, err := ruleset.StateOf(t)
//	change, err := state.Prepare(&ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "nets", Add: more}}})
//	... carry out change.Ops ...
//	state.Commit(change)
//
// A State takes about this much memory:
//
//   - 7 bytes for an IPv4 address in a set
//   - 12 bytes for an IPv4 address in a verdict map
//   - 8 bytes for a range of IPv4 addresses
//
// Package simulate runs packets through a table.
//
// # Limits
//
// The model does not have:
//
//   - comments of tables and chains
//   - stateful objects
//   - statements that add elements to sets
//   - counters and hardware offload of flowtables
//
// No operation changes a flowtable. Validate refuses ranges of values in host byte order, such as
// marks. It also refuses a lookup of the field ip6 dscp, which nft 1.0.6 encodes wrongly: use a
// Compare.
//
// The kernel accepts two kinds of tables on which nft 1.0.6 aborts. Script cannot be used for them:
//
//   - A key of a set combines bits (ct state, ct status, tcp flags) with other fields. nft aborts
//     when it lists or edits the table.
//   - A rule has an anonymous set of DSCP values. nft aborts when it inserts another rule by index.
//
// A listing of nft 1.0.6 does not show a table exactly:
//
//   - It omits the match on the family before a match on ICMP.
//   - It shows the interface name "way*" and the prefix "way" as the same text. Parse refuses this
//     text in a set.
//   - Some fields imply matches on family and protocol. The listing shows these matches directly
//     before the field, even if the rule has them elsewhere.
//
// A transaction may delete an element and add another one that overlaps it. This was tested on
// Linux 6.18. Old kernels had bugs with such transactions, and were not tested.
//
// # Concurrency
//
// Several goroutines may read the values of this package as long as none changes them. Only one
// goroutine at a time may use a State.
//
// # Errors
//
// Validate, Prepare, StateOf and Diff return a join of all problems. Each problem has its place, as
// in "ruleset: chain base: rule 3: no set nets". Parse returns a *ParseError for the first
// unexpected word. Other functions return no errors: String may return text that nft refuses, if
// the table is invalid.
package ruleset
