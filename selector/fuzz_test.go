// SPDX-License-Identifier: Apache-2.0

package selector_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/selector"
)

// FuzzParse checks that Parse does not panic, that errors have a position in the text, and that the
// canonical form is a fixed point.
func FuzzParse(f *testing.F) {
	c := loadCases(f)
	for _, row := range c.Match {
		f.Add(row.Selector)
	}
	for _, row := range c.Canonical {
		f.Add(row.Input)
	}
	for _, row := range c.Invalid {
		f.Add(row.Selector)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sel, err := selector.Parse(text)
		require.Equal(t, err, selector.Check(text))
		if err != nil {
			requireRefused(t, text)
			return
		}
		requireFixedPoint(t, sel)
		same := sel.MapTerms(selector.Term.Selector)
		require.Equal(t, sel.String(), same.String())
		for _, labels := range []selector.Map{nil, {"a": "a", "b": ""}, {"a": "b", "c": "d"}} {
			match := sel
			if !sel.Match(labels) {
				match = selector.Not(sel)
			}
			requireMatch(t, true, match, labels)
			requireSound(t, match, labels)
			require.False(t, selector.Not(match).Match(labels))
			require.Equal(t, sel.Match(labels), parse(t, sel.String()).Match(labels))
		}
	})
}

// FuzzMatch compares a random expression, written in a random style, with a naive evaluator, for
// all implementations of Labels. It checks that constructors and Parse agree, and that restrictions
// hold in every match.
func FuzzMatch(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		e := randomExpr(rng, 4)
		sel := parse(t, e.write(rng))
		requireFixedPoint(t, sel)
		built := e.build()
		require.NoError(t, built.Err())
		require.Equal(t, sel.String(), built.String())
		for range 20 {
			labels := selector.Map{}
			for _, name := range fuzzNames {
				if rng.IntN(2) == 0 {
					labels[name] = pick(rng, fuzzValues)
				}
			}
			want := e.eval(labels)
			requireMatch(t, want, sel, labels)
			if want {
				requireSound(t, sel, labels)
			} else {
				requireSound(t, selector.Not(sel), labels)
			}
		}
	})
}

// requireSound checks the restrictions of a selector with labels that match.
func requireSound(t testing.TB, sel *selector.Selector, labels selector.Map) {
	last := ""
	for _, r := range sel.Restrictions() {
		value, present := labels[r.Label]
		require.False(t, r.Present && !present, "%s on %v: %+v", sel, labels, r)
		require.False(t, r.Absent && present, "%s on %v: %+v", sel, labels, r)
		if r.OneOf != nil {
			require.True(t, r.Present, "%+v", r)
			require.Contains(t, r.OneOf, value, "%s on %v: %+v", sel, labels, r)
			require.True(t, slices.IsSorted(r.OneOf), "%+v", r)
		}
		require.True(t, r.Present || r.Absent, "%+v", r)
		require.Less(t, last, r.Label)
		last = r.Label
	}
}

var (
	fuzzNames  = []string{"a", "in", "has", "not", "x.y/z-_"}
	fuzzValues = []string{"", "a", "ab", "abc", "b", `'`, `"`, "a b", "}"}
	fuzzWords  = []string{
		"==", "!=", "contains", "starts with", "ends with", "in", "not in", "has", "all()", "global()",
	}
)

func pick(rng *rand.Rand, from []string) string { return from[rng.IntN(len(from))] }

// expr is an expression of the naive evaluator: operands of "&&" or "||", the operand of "!", or a
// term.
type expr struct {
	op     string
	label  string
	values []string
	kids   []expr
}

func randomExpr(rng *rand.Rand, depth int) expr {
	if depth > 0 && rng.IntN(3) > 0 {
		e := expr{op: pick(rng, []string{"&&", "||", "!"})}
		n := 1
		if e.op != "!" {
			n = 2 + rng.IntN(3)
		}
		for range n {
			e.kids = append(e.kids, randomExpr(rng, depth-1))
		}
		return e
	}
	e := expr{op: pick(rng, fuzzWords), label: pick(rng, fuzzNames)}
	n := 1
	if e.op == "in" || e.op == "not in" {
		n = rng.IntN(4)
	}
	for range n {
		e.values = append(e.values, pick(rng, fuzzValues))
	}
	return e
}

func (e expr) eval(labels map[string]string) bool {
	value, present := labels[e.label]
	switch e.op {
	case "!":
		return !e.kids[0].eval(labels)
	case "&&":
		return !slices.ContainsFunc(e.kids, func(k expr) bool { return !k.eval(labels) })
	case "||":
		return slices.ContainsFunc(e.kids, func(k expr) bool { return k.eval(labels) })
	case "all()", "global()":
		return true
	case "has":
		return present
	case "==", "in":
		return present && slices.Contains(e.values, value)
	case "!=", "not in":
		return !(present && slices.Contains(e.values, value))
	case "contains":
		return present && strings.Contains(value, e.values[0])
	case "starts with":
		return present && strings.HasPrefix(value, e.values[0])
	case "ends with":
		return present && strings.HasSuffix(value, e.values[0])
	}
	panic("unknown operator " + e.op)
}

// write prints the expression with random white space, quotes and redundant parentheses.
func (e expr) write(rng *rand.Rand) string {
	gap := func() string { return pick(rng, []string{"", " ", "\t", "  "}) }
	var text string
	switch e.op {
	case "!":
		text = "!" + gap() + e.kids[0].writeGrouped(rng)
	case "&&", "||":
		parts := make([]string, len(e.kids))
		for i, kid := range e.kids {
			parts[i] = gap() + kid.writeGrouped(rng) + gap()
		}
		text = strings.Join(parts, e.op)
	case "all()", "global()":
		text = strings.Replace(e.op, ")", gap()+")", 1)
	case "has":
		text = "has(" + gap() + e.label + gap() + ")"
	case "in", "not in":
		text = e.label + " " + e.op + gap() + "{"
		for i, value := range e.values {
			if i > 0 {
				text += ","
			}
			text += gap() + quote(rng, value) + gap()
		}
		text += pick(rng, []string{"", ","}[:1+min(1, len(e.values))]) + gap() + "}"
	default:
		text = e.label + " " + e.op + gap() + quote(rng, e.values[0])
	}
	if rng.IntN(8) == 0 {
		text = "(" + gap() + text + gap() + ")"
	}
	return gap() + text + gap()
}

// writeGrouped prints an operand, in parentheses if they are needed.
func (e expr) writeGrouped(rng *rand.Rand) string {
	if e.op == "&&" || e.op == "||" {
		return "(" + e.write(rng) + ")"
	}
	return e.write(rng)
}

func quote(rng *rand.Rand, value string) string {
	if strings.Contains(value, `"`) || (!strings.Contains(value, `'`) && rng.IntN(2) == 0) {
		return "'" + value + "'"
	}
	return `"` + value + `"`
}

func (e expr) build() *selector.Selector {
	kids := make([]*selector.Selector, len(e.kids))
	for i, kid := range e.kids {
		kids[i] = kid.build()
	}
	switch e.op {
	case "!":
		return selector.Not(kids[0])
	case "&&":
		return selector.And(kids...)
	case "||":
		return selector.Or(kids...)
	case "all()":
		return selector.All()
	case "global()":
		return selector.Global()
	case "has":
		return selector.Has(e.label)
	case "==":
		return selector.Equal(e.label, e.values[0])
	case "!=":
		return selector.NotEqual(e.label, e.values[0])
	case "in":
		return selector.In(e.label, e.values...)
	case "not in":
		return selector.NotIn(e.label, e.values...)
	case "contains":
		return selector.Contains(e.label, e.values[0])
	case "starts with":
		return selector.StartsWith(e.label, e.values[0])
	case "ends with":
		return selector.EndsWith(e.label, e.values[0])
	}
	panic(fmt.Sprintf("unknown operator %s", e.op))
}
