// SPDX-License-Identifier: Apache-2.0

// Package ruleset is a typed model of one nftables table: the output of a renderer and the input of
// an applier. It does not depend on policy.
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
// String returns nft syntax, as close to a listing of nft 1.0.6 as is useful: a rule that nft loads
// from this text and one that is encoded from the model list the same. Diff returns the operations
// that turn one table into another, Script writes them for nft -f.
//
// Parse reads such a text, or a listing of nft, into a Table. It supports the fields, types and
// values that String writes. Anything else is an error with its position.
//
// To change a table repeatedly, keep a State of it and describe each change by a Delta. Prepare
// checks the change and finds the fewest operations, in time in proportion to the change and not to
// the table; Commit applies it:
//
//	state, err := ruleset.StateOf(t)
//	change, err := state.Prepare(&ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "nets", Add: more}}})
//	... carry out change.Ops ...
//	state.Commit(change)
//
// A State keeps elements packed: about 7 bytes for an IPv4 address in a set, 12 in a verdict map, 8 for a range.
//
// Field.Load has what an encoder or a simulator needs of a field. Package simulate runs packets
// through a table.
//
// # Limits
//
// Comments of tables and chains, stateful objects, statements that add to sets, and the counters
// and hardware offload of flowtables are not in the model. No operation changes flowtables. Ranges
// of values in host byte order (marks) are refused. The kernel removes expired elements by itself;
// a State keeps them.
//
// nft 1.0.6 aborts when it lists or edits a table with a set whose key combines bits (ct state, ct
// status, tcp flags) with other fields. It also aborts when it inserts a rule by index while
// another rule has an anonymous set of DSCP. Script is then of no use; the kernel accepts both.
//
// For a lookup, nft 1.0.6 shifts bits that span bytes in host byte order, so the lookup finds
// nothing. So Validate accepts fields whose Load has a Size only in a Compare.
//
// A listing of nft 1.0.6 has less than the table. It lacks the match on the family before one on
// ICMP. It shows an interface named "way*" like the prefix "way", which Parse refuses in a set.
// Matches on family and protocol are listed directly before the field that implies them.
//
// Elements that overlap deleted ones may be added in the same transaction (tested on Linux 6.18).
// Old kernels had bugs there, and were not tested.
//
// # Concurrency
//
// Several goroutines may read the values while none changes them. A State is for one goroutine at a
// time.
//
// # Errors
//
// Validate, Prepare, StateOf and Diff return all problems as one joined error, each with its place
// ("ruleset: chain base: rule 3: no set nets"). Parse returns a *ParseError for the first
// unexpected word. Nothing else fails; the String of an invalid table may not load.
package ruleset
