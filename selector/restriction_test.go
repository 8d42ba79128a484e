// SPDX-License-Identifier: Apache-2.0

package selector_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/selector"
)

// Besides testdata/cases.json: negation of operators, and operands that never match.
func TestRestrictions(t *testing.T) {
	for text, want := range map[string]string{
		`!all()`:                             ``,
		`a not in {}`:                        ``,
		`!(a in {"x"})`:                      ``,
		`!(a in {})`:                         ``,
		`a in {}`:                            `a=[]`,
		`!(a not in {})`:                     `a=[]`,
		`!(a != "x")`:                        `a=[x]`,
		`!(a not in {"y", "x"})`:             `a=[x y]`,
		`!(a contains "x")`:                  ``,
		`!(a contains "")`:                   `!a`,
		`!(a starts with "") && b != "x"`:    `!a`,
		`!(a != "x" || !has(b))`:             `a=[x] b`,
		`!(has(a) || has(b))`:                `!a !b`,
		`!(has(a) && has(b))`:                ``,
		`!(a != "x" && a != "y")`:            `a=[x y]`,
		`!has(a) || (!has(a) && has(b))`:     `!a`,
		`!has(a) || a == "x"`:                ``,
		`!all() || a == "x"`:                 `a=[x]`,
		`(a == "x" && a == "y") || has(b)`:   `b`,
		`(has(a) && !has(a)) || !all()`:      `a!a`,
		`a == "x" && !has(a)`:                `a!a=[x]`,
		`!!!(has(b) || !has(a))`:             `a !b`,
		`c == "1" && b == "2" && a == "3"`:   `a=[3] b=[2] c=[1]`,
		`(a == "1" || a == "2") && a != "2"`: `a=[1 2]`,
		`(a == "1" && b == "1") || (b == "2" && a == "1") || (a == "1" && b == "1" && has(c))`: `a=[1] b=[1 2]`,
	} {
		var parts []string
		for _, r := range parse(t, text).Restrictions() {
			part := ""
			if r.Present {
				part = r.Label
			}
			if r.Absent {
				part += "!" + r.Label
			}
			if r.OneOf != nil {
				part += fmt.Sprintf("=%v", r.OneOf)
			}
			parts = append(parts, part)
		}
		require.Equal(t, want, strings.Join(parts, " "), text)
	}
}

func TestRestrictionsAreKept(t *testing.T) {
	sel := selector.And(selector.Equal("a", "b"), selector.Has("c"))
	require.Equal(t, []selector.Restriction{
		{Label: "a", Present: true, OneOf: []string{"b"}}, {Label: "c", Present: true},
	}, sel.Restrictions())
	require.Zero(t, testing.AllocsPerRun(100, func() { sel.Restrictions() }))
}
