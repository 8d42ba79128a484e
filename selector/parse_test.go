// SPDX-License-Identifier: Apache-2.0

package selector_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/selector"
)

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		text, want string
	}{
		{`a =="b`, `selector: pos 6: expected a " that ends the value begun at 4`},
		{`a == b`, `selector: pos 5: expected a value in quotes, found 'b'`},
		{`a == "b" & has(c)`, `selector: pos 9: expected "&&", "||" or the end, found '&'`},
		{`(a == "b"`, `selector: pos 9: expected "&&", "||" or ")", found the end`},
		{`has(a) &&`, `selector: pos 9: expected a label name, "has(", "all()", "global()", "!" or "(", found the end`},
		{
			`a squiggles "b"`,
			`selector: pos 2: expected "==", "!=", "in", "not in", "contains", "starts with" or "ends with", found 's'`,
		},
		{`a starts "b"`, `selector: pos 9: expected "with", found '"'`},
		{`a not  of {}`, `selector: pos 7: expected "in", found 'o'`},
		{`a in "b"`, `selector: pos 5: expected "{", found '"'`},
		{`a in {"b" "c"}`, `selector: pos 10: expected "," or "}", found '"'`},
		{`a in {,}`, `selector: pos 6: expected a value in quotes or "}", found ','`},
		{`a in {"b",,}`, `selector: pos 10: expected a value in quotes or "}", found ','`},
		{`has()`, `selector: pos 4: expected a label name, found ')'`},
		{`all(x)`, `selector: pos 4: expected ")", found 'x'`},
		{"has(a\xff)", `selector: pos 5: expected ")", found byte 0xff`},
		{"has(a)\n", `selector: pos 6: expected "&&", "||" or the end, found '\n'`},
	} {
		require.EqualError(t, requireRefused(t, c.text), c.want, c.text)
	}
}

// Text that a more tolerant parser might accept.
func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"has (a)", "all ()", "global ()", "All()", "HAS(a)", `a IN {"b"}`, `a Contains "b"`, `a == "b" AND b == "c"`,
		"a\n== 'b'", "a\v== 'b'", "a\u00a0== 'b'", "ä == 'b'", `a == "b"; all()`, `a == "b" has(c)`, "!", "!!", "()",
		"(())", `a == "\""`, `a not "b"`, `a startswith`, `a start swith "b"`, `a not startswith "b"`, `a = = "b"`,
		`a in {"b"`, `a in {b}`, `a in ("b")`, "\x00", "all()\x00", "all() all()", "&& has(a)", "has(a) || || has(b)",
		"has(a b)", "has('a')",
	} {
		requireRefused(t, text)
	}
}

func TestParseAccepts(t *testing.T) {
	for text, want := range map[string]string{
		"\t \t":                     `all()`,
		`a in {"x",}`:               `a in {"x"}`,
		`a in { 'x' , "y" , }`:      `a in {"x", "y"}`,
		`a in{}`:                    `a in {}`,
		`a notin{}`:                 `a not in {}`,
		`not not in {"in"}`:         `not not in {"in"}`,
		`has == "all"`:              `has == "all"`,
		`all != ''`:                 `all != ""`,
		`global in {"x"}`:           `global in {"x"}`,
		`has(has)`:                  `has(has)`,
		"a\tends\t with'x'":         `a ends with "x"`,
		`-/._ == "x"`:               `-/._ == "x"`,
		`a=="b"||c=="d"&&!e=="f"`:   `(a == "b" || (c == "d" && !e == "f"))`,
		`((a=="b"||has(c))&&all())`: `((a == "b" || has(c)) && all())`,
		"a == 'line\nbreak ü \xff'": "a == \"line\nbreak ü \xff\"",
	} {
		sel := parse(t, text)
		require.Equal(t, want, sel.String(), text)
		requireFixedPoint(t, sel)
	}
}

// Negations cancel out, also through parentheses, so that the canonical form is a fixed point.
func TestParseNegation(t *testing.T) {
	for text, want := range map[string]string{
		"!(!has(a))":                          "has(a)",
		"!(!(!has(a)))":                       "!has(a)",
		"!!(!!(has(a) || has(b)))":            "(has(a) || has(b))",
		"!(!(has(a) && !(!has(b))))":          "(has(a) && has(b))",
		strings.Repeat("!", 16000) + "has(a)": "has(a)",
		strings.Repeat("! ", 7001) + "all()":  "!all()",
		strings.Repeat("!(", 127) + "all()" + strings.Repeat(")", 127): "!all()",
	} {
		sel := parse(t, text)
		require.Equal(t, want, sel.String())
		requireFixedPoint(t, sel)
	}
}

func TestParseLimits(t *testing.T) {
	nested := func(depth int, open string) string {
		return strings.Repeat(open, depth) + "has(a)" + strings.Repeat(")", depth)
	}
	parse(t, nested(selector.MaxDepth, "("))
	parse(t, nested(selector.MaxDepth, "!("))
	requireFixedPoint(t, parse(t, nested(selector.MaxDepth-1, "has(b)||(")))
	requireRefused(t, nested(selector.MaxDepth+1, "("))
	requireRefused(t, nested(selector.MaxDepth+1, "!("))
	requireRefused(t, strings.Repeat("(", selector.MaxLength))
	// A group in the text becomes two nested groups in the canonical form. Parse must accept that
	// form, too.
	requireFixedPoint(t, parse(t, nested(selector.MaxDepth/2-1, "has(b)||has(c)&&(")))
	requireRefused(t, nested(selector.MaxDepth/2+1, "has(b)||has(c)&&("))

	parse(t, strings.Repeat("a", 512)+" == 'b'")
	requireRefused(t, strings.Repeat("a", 513)+" == 'b'")
	parse(t, "has("+strings.Repeat("a", 512)+")")
	requireRefused(t, "has("+strings.Repeat("a", 513)+")")

	fill := func(n int) string { return `a == "` + strings.Repeat("x", n-len(`a == ""`)) + `"` }
	requireFixedPoint(t, parse(t, fill(selector.MaxLength)))
	require.Equal(t, selector.MaxLength, requireRefused(t, fill(selector.MaxLength+1)).Pos)
	requireRefused(t, strings.Repeat(" ", selector.MaxLength+1))
	// The text is short enough, but its canonical form is too long.
	requireRefused(t, strings.Repeat("a=='b'||", selector.MaxLength/8-1)+"has(a)")
}

// Check agrees with Parse, also if only the canonical form is too long, and allocates almost
// nothing.
func TestCheck(t *testing.T) {
	for _, text := range []string{
		"", "all()", `a == "b" && !(c in {"d", 'e'} || has(f))`, `a in {`, `a = b`,
		`(a == "b"`, strings.Repeat("!", selector.MaxLength),
		strings.Repeat("(", 129) + "all()" + strings.Repeat(")", 129),
		strings.Repeat(`a==""&&`, selector.MaxLength/8) + `a==""`,
		strings.Repeat(`a==""&&`, selector.MaxLength/4/7) + `a==""`, strings.Repeat("x", selector.MaxLength+1),
	} {
		_, err := selector.Parse(text)
		require.Equal(t, err, selector.Check(text), "%.40s", text)
	}
	text := `a == "b" && c == "d"`
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = selector.Check(text) }), 1.0)
}
