// SPDX-License-Identifier: Apache-2.0

package build

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Accept returns the verdict that accepts.
func Accept() ruleset.Verdict { return ruleset.Verdict{Kind: ruleset.Accept} }

// Drop returns the verdict that drops.
func Drop() ruleset.Verdict { return ruleset.Verdict{Kind: ruleset.Drop} }

// Return returns the verdict that returns to the calling chain.
func Return() ruleset.Verdict { return ruleset.Verdict{Kind: ruleset.Return} }

// Jump returns the verdict that jumps to a chain. That chain returns to the calling chain.
func Jump(chain string) ruleset.Verdict { return ruleset.Verdict{Kind: ruleset.Jump, Chain: chain} }

// Goto returns the verdict that goes to a chain. For example, a rule of chain x jumps to chain y,
// and a rule of y goes to chain z. After the end of z, evaluation continues in x.
func Goto(chain string) ruleset.Verdict { return ruleset.Verdict{Kind: ruleset.Goto, Chain: chain} }

// Always returns a rule without matches.
func Always(statements ...ruleset.Statement) ruleset.Rule {
	return ruleset.Rule{Statements: statements}
}

// When returns a rule with matches and a verdict.
func When(v ruleset.Verdict, matches ...ruleset.Match) ruleset.Rule {
	return ruleset.Rule{Matches: matches, Statements: []ruleset.Statement{v}}
}

// Dispatch returns a rule that looks up the fields in a verdict map.
func Dispatch(verdicts string, fields ...ruleset.Field) ruleset.Rule {
	return Always(ruleset.VMap{Fields: fields, Map: verdicts})
}

// Commented returns the rule with a comment.
func Commented(r ruleset.Rule, text string) ruleset.Rule {
	r.Comment = sets.Comment(text)
	return r
}

// Equals returns a match on one value of a field.
func Equals(f ruleset.Field, v ruleset.Value) ruleset.Match {
	return ruleset.Compare{Field: f, Value: v}
}

// State returns a match on packets whose connection has the state. Use State instead of Equals,
// which would match the same packets at a higher cost. Each packet has exactly one state, which is
// one bit. For Equals, the kernel tests this bit in two operations: it masks the field, and then
// compares the result. The match that State returns has a Mask of all bits. It needs only one
// operation, which compares the whole field.
func State(state uint32) ruleset.Compare {
	return ruleset.Compare{Field: ruleset.CtState, Value: ruleset.Uint32(state), Mask: ruleset.Uint32(1<<32 - 1)}
}

// InSet returns a lookup of fields in a named set.
func InSet(set string, fields ...ruleset.Field) ruleset.Match {
	return ruleset.Lookup{Fields: fields, Set: set}
}

// OneOf returns a match on any of several values of a field. It uses an anonymous set.
func OneOf(f ruleset.Field, values ...ruleset.Value) ruleset.Match {
	in := ruleset.In{Fields: []ruleset.Field{f}}
	for _, v := range values {
		in.Elements = append(in.Elements, ruleset.Element{Key: []ruleset.Value{v}})
	}
	return in
}
