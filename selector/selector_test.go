// SPDX-License-Identifier: Apache-2.0

package selector_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/selector"
)

// Constructors and Parse return the same canonical form, or equal selectors would have two IDs.
func TestConstructors(t *testing.T) {
	a, b, c := selector.Has("a"), selector.Equal("b", "x"), selector.NotEqual("c", `"`)
	for text, sel := range map[string]*selector.Selector{
		`all()`:                                selector.All(),
		`global()`:                             selector.Global(),
		`has(a)`:                               a,
		`b == "x"`:                             b,
		`c != '"'`:                             c,
		`d in {"x", "y"}`:                      selector.In("d", "y", "x", "y"),
		`d in {}`:                              selector.In("d"),
		`d not in {"x", "y"}`:                  selector.NotIn("d", "y", "x"),
		`e contains "x"`:                       selector.Contains("e", "x"),
		`e starts with "x"`:                    selector.StartsWith("e", "x"),
		`e ends with ""`:                       selector.EndsWith("e", ""),
		`(has(a) && b == "x")`:                 selector.And(a, b),
		`(has(a) || b == "x")`:                 selector.Or(a, b),
		`!has(a)`:                              selector.Not(a),
		`!(has(a) && b == "x")`:                selector.Not(selector.And(a, b)),
		`((has(a) || b == "x") && c != '"')`:   selector.And(selector.Or(a, b), c),
		`((has(a) && b == "x") || c != '"')`:   selector.Or(selector.And(a, b), c),
		`(has(a) && (b == "x" && c != '"'))`:   selector.And(a, selector.And(b, c)),
		`(!(has(a) || b == "x") && !c != '"')`: selector.And(selector.Not(selector.Or(a, b)), selector.Not(c)),
		`!all()`:                               selector.Or(),
	} {
		require.NoError(t, sel.Err())
		require.Equal(t, text, sel.String())
		requireFixedPoint(t, sel)
	}
	require.Equal(t, "has(a)", selector.Not(selector.Not(a)).String())
	require.Equal(t, "has(a)", selector.And(a).String())
	require.Equal(t, "has(a)", selector.Or(a).String())
	require.Equal(t, "all()", selector.And().String())
	require.False(t, selector.Or().Match(selector.Map{}))
}

// A selector that the language has no text for matches nothing, in any combination.
func TestInvalid(t *testing.T) {
	good := selector.All()
	invalid := map[string]*selector.Selector{
		"nil":             nil,
		"zero":            {},
		"both quotes":     selector.NotEqual("a", `"'`),
		"one of a set":    selector.NotIn("a", "x", `"'`),
		"empty name":      selector.NotEqual("", "x"),
		"long name":       selector.NotEqual(strings.Repeat("a", 513), "x"),
		"bad name":        selector.NotEqual("a b", "x"),
		"injection":       selector.Has("a) || has(b"),
		"unknown op":      selector.Term{Op: 99}.Selector(),
		"inner op":        selector.Term{Op: 100, Values: []string{"x"}}.Selector(),
		"zero term":       selector.Term{}.Selector(),
		"label on all":    selector.Term{Op: selector.OpAll, Label: "a"}.Selector(),
		"no value":        selector.Term{Op: selector.OpNotEqual, Label: "a"}.Selector(),
		"prefix":          selector.NotEqual("a", "x").PrefixLabels("ü."),
		"replaced by nil": good.MapTerms(func(selector.Term) *selector.Selector { return nil }),
	}
	for name, sel := range invalid {
		for _, whole := range []*selector.Selector{
			sel, selector.Not(sel), selector.Not(selector.Not(sel)), selector.And(sel), selector.Or(sel),
			selector.And(good, sel), selector.Or(sel, good), sel.PrefixLabels("p."),
			selector.Not(good).MapTerms(func(selector.Term) *selector.Selector { return sel }),
			selector.And(good, good).MapTerms(func(selector.Term) *selector.Selector { return sel }),
		} {
			require.Error(t, whole.Err(), name)
			require.False(t, whole.Match(selector.Map{"a": "x"}), name)
			require.Equal(t, "!all()", whole.String(), name)
			require.Equal(t, parse(t, "!all()").ID(), whole.ID(), name)
			require.Empty(t, whole.Restrictions(), name)
		}
	}
}

func TestMapTerms(t *testing.T) {
	sel := parse(t, `!(all() && !k in {"b", "a"}) || global()`)
	var seen []selector.Term
	mapped := sel.MapTerms(func(term selector.Term) *selector.Selector {
		seen = append(seen, selector.Term{
			Op: term.Op, Label: term.Label, Values: append([]string(nil), term.Values...),
		})
		switch term.Op {
		case selector.OpAll:
			return selector.Has("ns")
		case selector.OpGlobal:
			return selector.Not(selector.Has("ns"))
		}
		term.Values[0] = "changed" // a copy: the selector does not change
		return selector.Not(term.Selector())
	})
	require.Equal(t, []selector.Term{
		{Op: selector.OpAll}, {Op: selector.OpIn, Label: "k", Values: []string{"a", "b"}}, {Op: selector.OpGlobal},
	}, seen)
	require.Equal(t, `(!(has(ns) && k in {"b", "changed"}) || !has(ns))`, mapped.String())
	require.Equal(t, `(!(all() && !k in {"a", "b"}) || global())`, sel.String())
	requireFixedPoint(t, mapped)
}

func TestMatchAllocatesNothing(t *testing.T) {
	sel := parse(t, `(a == "b" || !(c in {"x", "y", "z"} && d starts with "q")) && e != "f" && has(a) && `+
		`a contains "b" && a ends with "b"`)
	labels := selector.Map{"a": "b", "c": "y", "e": "g"}
	for _, kind := range []selector.Labels{nil, labels, selector.NewCompact(labels), other{labels}} {
		require.Zero(t, testing.AllocsPerRun(100, func() { sel.Match(kind) }), "%T", kind)
	}
}

func TestMatchWithoutLabels(t *testing.T) {
	for _, none := range []selector.Labels{nil, selector.Map(nil), (*selector.Compact)(nil), &selector.Compact{}} {
		require.True(t, selector.Not(selector.Has("a")).Match(none), "%T", none)
		require.False(t, selector.Equal("a", "").Match(none), "%T", none)
	}
}

// Sets of all sizes, with linear and with binary search.
func TestMatchSets(t *testing.T) {
	var values []string
	for i := range 40 {
		in, notIn := selector.In("a", values...), selector.NotIn("a", values...)
		for _, value := range append([]string{"", "none", "v99"}, values...) {
			holds := slices.Contains(values, value)
			requireMatch(t, holds, in, map[string]string{"a": value})
			requireMatch(t, !holds, notIn, map[string]string{"a": value})
		}
		requireMatch(t, false, in, map[string]string{"b": "v1"})
		requireMatch(t, true, notIn, map[string]string{"b": "v1"})
		values = append(values, fmt.Sprintf("v%d", i))
	}
}

func TestTerms(t *testing.T) {
	sel := parse(t, `!(all() && !k in {"b", "a"}) || global() || has(x) || y != "z"`)
	require.Equal(t, []selector.Term{
		{Op: selector.OpAll},
		{Op: selector.OpIn, Label: "k", Values: []string{"a", "b"}},
		{Op: selector.OpGlobal},
		{Op: selector.OpHas, Label: "x"},
		{Op: selector.OpNotEqual, Label: "y", Values: []string{"z"}},
	}, slices.Collect(sel.Terms()))
	for term := range sel.Terms() {
		if len(term.Values) == 2 {
			term.Values[0] = "changed" // a copy
			break
		}
	}
	require.Contains(t, sel.String(), `k in {"a", "b"}`)
	require.Empty(t, slices.Collect(selector.Has("").Terms()))
	require.Empty(t, slices.Collect((*selector.Selector)(nil).Terms()))
}

func TestSharedBetweenGoroutines(t *testing.T) {
	sel := parse(t, `a in {"b", "c"} && !has(d)`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				sel.Match(selector.Map{"a": "b"})
				require.Len(t, sel.Restrictions(), 2)
				_ = sel.ID() + selector.Not(sel).PrefixLabels("x.").String()
			}
		})
	}
	wg.Wait()
}

// Parse takes linear time for the most hostile text of the maximum length. With quadratic time,
// this test takes minutes.
func TestHostileText(t *testing.T) {
	for _, unit := range []string{
		"(", "!", "!(", `a in {`, `"`, `'`, "a", "has(", "a==''&&", "a==''||", "(a==''||", " ", "a in {'',", "not ",
		"\xff",
	} {
		text := strings.Repeat(unit, selector.MaxLength/len(unit))
		for range 50 {
			sel, err := selector.Parse(text)
			require.True(t, (sel == nil) == (err != nil))
			sel.Restrictions()
		}
	}
}
