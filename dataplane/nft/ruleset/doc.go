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
// Diff gives the commands that turn one table into another.
//
// # Concurrency
//
// The values are plain data. Reading them from several goroutines is fine as long as
// none changes them.
//
// # Errors
//
// Validate returns every problem it finds as one joined error. Nothing else fails; String
// of a table that does not validate is not meant to be loaded.
package ruleset
