// SPDX-License-Identifier: Apache-2.0

// Package ruleset is a typed model of one nftables table: what a renderer wants and an
// applier programs. It knows the language of nftables and nothing of policy.
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
// String writes what nft 1.0.6 reads and prints itself, as closely as it is useful: a rule
// that the kernel got from this text and one that it got from the model list the same.
// Diff gives the operations that turn one table into another, Script prints them for nft -f.
//
// Parse reads such a text, and what nft lists, back into a Table. It knows the fields, types and values that String
// writes from the same tables. Whatever the model has no place for is an error with its place.
//
// Whoever changes a table over and over keeps a State of it and describes each change by a Delta. Prepare checks the
// change and finds the fewest operations, in time in proportion to it and not to the table; Commit makes it so:
//
//	state, err := ruleset.StateOf(t)
//	change, err := state.Prepare(&ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "nets", Add: more}}})
//	... carry out change.Ops ...
//	state.Commit(change)
//
// A State keeps elements packed: about 7 bytes for an IPv4 address in a set, 12 in a verdict map, 8 for a range.
//
// What an encoder or a simulator must know of a field is in one place: Field.Load. Package simulate
// runs packets through a table.
//
// # Limits
//
// Comments of tables and chains, stateful objects, flowtables and statements that add to sets are
// not in the model. Ranges of values in host byte order (marks) are refused. The
// kernel removes elements past their timeout by itself; a State does not know.
//
// nft 1.0.6 itself aborts when it lists, or edits a table with, a set in whose key there are bits
// beside other parts (the state and status of a connection, the flags of TCP); and when it inserts
// a rule by index where another has an anonymous set of DSCP. Script is then of no use; the kernel
// has no trouble with either.
//
// For a lookup, nft 1.0.6 shifts bits that span bytes in the machine's byte order, so the lookup
// finds nothing. So Validate accepts fields whose Load has a Size only in a Compare.
//
// A listing of nft 1.0.6 says less than the table has, and Parse reads what it says. It lacks the match on the family
// before one on ICMP, and shows an interface that is called "way*" as all that begin with "way", which Parse refuses in
// a set. Matches on family and protocol come back directly before the field that implies them.
//
// Elements that overlap deleted ones may come in the same transaction (tried with Linux 6.18). Old kernels had bugs
// there; none was at hand to try.
//
// # Concurrency
//
// The values are plain data. Reading them from several goroutines is fine as long as
// none changes them. A State is for one goroutine at a time.
//
// # Errors
//
// Validate, Prepare, StateOf and Diff return every problem they find as one joined error, each with
// its place ("ruleset: chain base: rule 3: no set nets"). Parse returns a *ParseError for the first word that does not
// fit. Nothing else fails; String of a table that does not validate is not meant to be loaded.
package ruleset
