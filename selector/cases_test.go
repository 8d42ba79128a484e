// SPDX-License-Identifier: Apache-2.0

package selector_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/selector"
)

// cases is the content of testdata/cases.json.
type cases struct {
	Match []struct {
		ID, Selector string
		Labels       map[string]string
		Match        bool
	}
	Canonical []struct{ ID, Input, Canonical string }
	Invalid   []struct{ ID, Selector string }
	Rewrite   struct {
		Prefix string
		Cases  []struct{ ID, Input, Output string }
	} `json:"label_rewrite"`
	Restrictions []struct {
		ID, Selector string
		Restrictions map[string]struct {
			Absent  bool     `json:"must_be_absent"`
			Present bool     `json:"must_be_present"`
			OneOf   []string `json:"must_have_one_of"`
		}
	} `json:"label_restrictions"`
	Facts []struct {
		Equal     [][]string `json:"equal_uid_groups"`
		Different [][]string `json:"different_uid_pairs"`
	} `json:"unique_id_facts"`
}

func loadCases(t testing.TB) cases {
	data, err := os.ReadFile("testdata/cases.json")
	require.NoError(t, err)
	var c cases
	require.NoError(t, json.Unmarshal(data, &c))
	return c
}

func parse(t testing.TB, text string) *selector.Selector {
	sel, err := selector.Parse(text)
	require.NoError(t, err, "%q", text)
	require.NoError(t, sel.Err())
	return sel
}

// S1 to S4, and all combinations of terms.
func TestCasesMatch(t *testing.T) {
	all := loadCases(t).Match
	require.NotEmpty(t, all)
	for _, c := range all {
		sel := parse(t, c.Selector)
		requireMatch(t, c.Match, sel, c.Labels)
		requireMatch(t, c.Match, parse(t, sel.String()), c.Labels)
	}
}

// requireMatch checks the result of Match with all implementations of Labels.
func requireMatch(t testing.TB, want bool, sel *selector.Selector, labels map[string]string) {
	for _, kind := range []selector.Labels{
		selector.Map(labels), selector.NewCompact(labels), other{selector.Map(labels)},
	} {
		require.Equal(t, want, sel.Match(kind), "%s on %T %v", sel, kind, labels)
	}
}

// other is an implementation of Labels that Match has no special case for.
type other struct{ selector.Map }

// The restrictions of each case are the expected ones: none is missing or too strong.
func TestCasesRestrictions(t *testing.T) {
	all := loadCases(t).Restrictions
	require.NotEmpty(t, all)
	for _, c := range all {
		want := []selector.Restriction{}
		for label, r := range c.Restrictions {
			want = append(want, selector.Restriction{
				Label: label, Present: r.Present, Absent: r.Absent, OneOf: r.OneOf,
			})
		}
		slices.SortFunc(want, func(a, b selector.Restriction) int { return strings.Compare(a.Label, b.Label) })
		got := parse(t, c.Selector).Restrictions()
		require.Equal(t, want, append([]selector.Restriction{}, got...), "%s: %s", c.ID, c.Selector)
	}
}

func TestCasesCanonical(t *testing.T) {
	all := loadCases(t).Canonical
	require.NotEmpty(t, all)
	for _, c := range all {
		sel := parse(t, c.Input)
		require.Equal(t, c.Canonical, sel.String(), c.ID)
		requireFixedPoint(t, sel)
		sum := sha256.Sum224([]byte("s:" + c.Canonical))
		require.Equal(t, "s:"+base64.RawURLEncoding.EncodeToString(sum[:]), sel.ID(), c.ID)
	}
}

func TestCasesInvalid(t *testing.T) {
	all := loadCases(t).Invalid
	require.NotEmpty(t, all)
	for _, c := range all {
		requireRefused(t, c.Selector)
	}
}

func TestCasesPrefixLabels(t *testing.T) {
	rewrite := loadCases(t).Rewrite
	require.NotEmpty(t, rewrite.Cases)
	for _, c := range rewrite.Cases {
		sel := parse(t, c.Input).PrefixLabels(rewrite.Prefix)
		require.Equal(t, c.Output, sel.String(), c.ID)
		requireFixedPoint(t, sel)
	}
}

func TestCasesID(t *testing.T) {
	groups, pairs := 0, 0
	for _, fact := range loadCases(t).Facts {
		for _, group := range fact.Equal {
			groups++
			for _, text := range group {
				require.Equal(t, parse(t, group[0]).ID(), parse(t, text).ID(), "%q and %q", group[0], text)
			}
		}
		for _, pair := range fact.Different { // S2: all() and global() among them
			pairs++
			require.NotEqual(t, parse(t, pair[0]).ID(), parse(t, pair[1]).ID(), "%q and %q", pair[0], pair[1])
		}
	}
	require.NotZero(t, groups)
	require.NotZero(t, pairs)
}

// requireFixedPoint checks that Parse of the canonical form returns an equal selector.
func requireFixedPoint(t testing.TB, sel *selector.Selector) {
	again, err := selector.Parse(sel.String())
	require.NoError(t, err, "%q", sel.String())
	require.Equal(t, sel.String(), again.String())
	require.Equal(t, sel.ID(), again.ID())
}

// requireRefused checks that Parse fails, with a position inside the text.
func requireRefused(t testing.TB, text string) *selector.ParseError {
	sel, err := selector.Parse(text)
	require.Error(t, err, "%.80q", text)
	require.Nil(t, sel)
	var parseError *selector.ParseError
	require.ErrorAs(t, err, &parseError)
	require.GreaterOrEqual(t, parseError.Pos, 0)
	require.LessOrEqual(t, parseError.Pos, len(text))
	require.Contains(t, parseError.Msg, "expected ")
	return parseError
}
