// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// badTexts returns the texts of testdata/bad.txt that do not parse. Each is one line, with "\n" for
// the end of a line, and has its error in the next line.
func badTexts(t testing.TB) (texts, errs []string) {
	lines := strings.Split(strings.TrimSuffix(read(t, "testdata/bad.txt"), "\n"), "\n")
	require.Zero(t, len(lines)%2)
	for i := 0; i < len(lines); i += 2 {
		texts = append(texts, strings.ReplaceAll(lines[i], `\n`, "\n"))
		errs = append(errs, strings.TrimPrefix(lines[i+1], "\t"))
	}
	return texts, errs
}

// TestParseErrors: each error has the position, the word and the reason.
func TestParseErrors(t *testing.T) {
	texts, want := badTexts(t)
	file := ""
	for i, text := range texts {
		table, err := ruleset.Parse(text)
		require.Error(t, err, text)
		require.Nil(t, table)
		file += strings.ReplaceAll(text, "\n", `\n`) + "\n\t" + err.Error() + "\n"
		if !*update {
			require.EqualError(t, err, want[i], text)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/bad.txt", []byte(file), 0o644))
	}
}

// TestParseBounds: texts and words that are too long are refused.
func TestParseBounds(t *testing.T) {
	_, err := ruleset.Parse(strings.Repeat(" ", 64<<20+1))
	require.EqualError(t, err, `ruleset: line 1, column 1: "": a text of 67108865 bytes, at most 67108864`)
	_, err = ruleset.Parse("table inet " + strings.Repeat("x", 256))
	long := strings.Repeat("x", 255)
	require.EqualError(t, err, `ruleset: line 1, column 12: "`+long+`": a word of more than 255 bytes`)
	var e *ruleset.ParseError
	require.ErrorAs(t, err, &e)
	require.Equal(t, 12, e.Column)
}
