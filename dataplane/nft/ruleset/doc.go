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
// String returns nft syntax, close to the output of "nft list" 1.0.6. The nft tool lists a rule in
// the same way, whether nft loaded the rule from this text or package applier programmed it. Diff
// returns the operations that turn one table into another. Script writes operations for nft -f.
//
// Parse reads the text of String, or a listing of nft, into a Table. It supports the fields, types
// and values that String writes. For anything else, it returns an error with the position.
//
// To change a table repeatedly, keep a State of the table, and describe each change by a Delta.
// Prepare checks the change and finds the fewest operations. It takes time in proportion to the
// change, not to the table. Commit applies the change to the State:
//
//	state, err := ruleset.StateOf(t)
//	change, err := state.Prepare(&ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "nets", Add: more}}})
//	... carry out change.Ops ...
//	state.Commit(change)
//
// A State needs little memory for elements: about 7 bytes for an IPv4 address in a set, 12 bytes
// for one in a verdict map, and 8 bytes for a range.
//
// Field.Load describes a field for an encoder or a simulator. Package simulate runs packets through
// a table.
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
// marks. The kernel removes expired elements, but a State keeps them.
//
// nft 1.0.6 aborts when it lists or edits a table with a set whose key combines bits (ct state, ct
// status, tcp flags) with other fields. It also aborts when it inserts a rule by index while
// another rule has an anonymous set of DSCP values. So Script cannot be used for such tables. The
// kernel accepts them.
//
// The bits of the field ip6 dscp lie in two bytes. nft 1.0.6 encodes a lookup of this field wrongly:
// the kernel shifts the bits in host byte order, and the lookup finds nothing. So Validate refuses
// this field in a lookup, but accepts it in a Compare. Field.Load returns the Size 2 for this field,
// and the Size 0 for every other field.
//
// A listing of nft 1.0.6 does not show a table exactly:
//
//   - It omits the match on the family before a match on ICMP.
//   - It shows an interface with the name "way*" in the same way as the prefix "way". In a set,
//     Parse refuses such an element.
//   - If a field implies matches on family and protocol, it shows these matches directly before the
//     field, even if they are elsewhere in the rule.
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
// Validate, Prepare, StateOf and Diff return a join of all problems. The text of each problem has
// its place, as in "ruleset: chain base: rule 3: no set nets". Parse returns a *ParseError for the
// first unexpected word. Other functions return no errors. If a table is invalid, nft may refuse
// the text that its String returns.
package ruleset
