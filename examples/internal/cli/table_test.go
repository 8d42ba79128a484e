// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/cli"
)

// Without a limit, each row is one line, and cells are never cut.
func TestTable(t *testing.T) {
	table := cli.Table{Head: []string{"NAME", "VALUE", "NOTE"}, Rows: [][]string{
		{"a", strings.Repeat("x", 300), ""}, {"long-name", "é", "two\nlines"},
	}}
	require.Equal(t, "NAME       VALUE"+strings.Repeat(" ", 297)+"NOTE\n"+
		"a          "+strings.Repeat("x", 300)+"\n"+
		"long-name  é"+strings.Repeat(" ", 301)+"two\n"+strings.Repeat(" ", 313)+"lines\n", table.Text(0))
	require.Empty(t, cli.Table{}.Text(80))
}

// At a terminal the widest columns are wrapped, after spaces, commas and slashes if possible, and
// nothing is lost.
func TestTableFits(t *testing.T) {
	table := cli.Table{Head: []string{"ENDPOINT", "STATE", "ADDRESSES", "ERROR"}, Rows: [][]string{
		{"shop/web", "failed", "10.65.0.10,2001:db8::10", "interface way-web: no such device"},
		{"shop/db", "up", strings.Repeat("y", 40), ""},
	}}
	require.Equal(t, strings.Join([]string{
		"ENDPOINT  STATE   ADDRESSES           ERROR",
		"shop/web  failed  10.65.0.10,         interface way-web:",
		"                  2001:db8::10        no such device",
		"shop/db   up      yyyyyyyyyyyyyyyyyy",
		"                  yyyyyyyyyyyyyyyyyy",
		"                  yyyy",
		"",
	}, "\n"), table.Text(57))
	for width := range 200 {
		text := table.Text(width)
		require.Equal(t, letters(table.Text(0)), letters(text), width)
		for line := range strings.Lines(text) {
			require.True(t, width < 46 || utf8.RuneCountInString(line)-1 <= width, "%d: %q", width, line)
		}
	}
}

// letters returns the characters of a text besides white space, sorted.
func letters(text string) string {
	all := []rune(strings.Join(strings.Fields(text), ""))
	slices.Sort(all)
	return string(all)
}

// A folded line keeps its indent, and its continuations are indented further.
func TestFold(t *testing.T) {
	text := "short\n  rule 1 Allow (shop.yaml:7: ingress[0]): no: protocol: the packet is TCP\n"
	require.Equal(t, text, cli.Fold(text, 0))
	require.Equal(t, text, cli.Fold(text, 80))
	require.Equal(t, "short\n  rule 1 Allow (shop.yaml:7:\n      ingress[0]): no: protocol:\n      the packet is TCP\n",
		cli.Fold(text, 32))
	require.Equal(t, text, cli.Fold(text, 10), "the width is too small for folded lines")
}
