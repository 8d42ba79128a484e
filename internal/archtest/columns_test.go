// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const (
	maxColumns = 120
	tabColumns = 4
	// maxListed is the maximum number of lines in a failure.
	maxListed = 20
)

// TestLinesFitIn120Columns reads all text files except test data and the files that programs write.
// A rune is a column, a tab is four.
func TestLinesFitIn120Columns(t *testing.T) {
	written := []string{"docs/benchmarks/results.json", "docs/package-lock.json"}
	var offenders []string
	for _, path := range files(t, "") {
		if filepath.Ext(path) == ".sum" || slices.Contains(written, path) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		if !utf8.Valid(text) { // a binary
			continue
		}
		for _, line := range tooLong(string(text)) {
			offenders = append(offenders, fmt.Sprintf("%s:%d", path, line))
		}
	}
	if n := len(offenders) - maxListed; n > 0 {
		offenders = append(offenders[:maxListed], fmt.Sprintf("and %d more", n))
	}
	report(t, "lines that are longer than 120 columns", offenders)
}

// TestLongLines checks which lines tooLong reports, and which cannot be broken.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for _, tt := range []struct {
		name, text string
		want       []int
	}{
		{"comment", "package x\n\n// " + long, []int{3}},
		{"code", "package x\n\nvar x = f(" + strings.Repeat("y, ", 40) + "y)", []int{3}},
		{"tabs", "package x\n\nvar x = 1\n" + strings.Repeat("\t", 28) + "var y = 1", []int{4}},
		{"runes", "package x\n\n// " + strings.Repeat("▸", 117), nil},
		{"literal", "package x\n\nvar x = `" + long + "`", []int{3}},
		{"raw literal", "package x\n\nvar x = `a\n" + long + "\n`", []int{4}},
		{"output", "package x\n\nfunc f() {\n\t// Output:\n\t// " + long + "\n}\n\n// " + long, []int{8}},
		{"paragraph", "# x\n\n" + long, []int{3}},
		{"table", "| x |\n|---|\n| " + long + " |", []int{3}},
		{"script", "#!/bin/sh\n" + long, []int{2}},
		{"code block", "```sh\n" + long + "\n```\n" + long, []int{2, 4}},
		{"printed", "```sh\nx\n```\n```text\n" + long + "\n```\n" + long, []int{7}},
		{"printed twice", "```sh\nx\n```\n```text\nx\n```\n```text\n" + long + "\n```", nil},
		{"not compared", "```sh no-test\nx\n```\n```text\n" + long + "\n```", []int{5}},
		{"after another block", "```sh\nx\n```\n```yaml\nx\n```\n```text\n" + long + "\n```", []int{8}},
		{"output of Go", "```go\n\t// Output:\n\t// " + long + "\n\t" + long + "\n```", []int{4}},
		{"URL", "- https://" + strings.Repeat("x", maxColumns) + "\n", nil},
		{"URL in a sentence", "see https://" + strings.Repeat("x", maxColumns), []int{1}},
	} {
		require.Equal(t, tt.want, tooLong(tt.text), tt.name)
	}
}

// tooLong returns the numbers of the lines of a file that are too long, except those that cannot be
// broken.
func tooLong(text string) (numbers []int) {
	var l lineReader
	for i, line := range strings.Split(text, "\n") {
		breakable := l.canBreak(strings.TrimSpace(line))
		columns := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
		if breakable && columns > maxColumns {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// lineReader reads the lines of a file in order.
type lineReader struct {
	output  bool   // in the output that an example expects
	block   string // the tag of the current block of a page
	inBlock bool
	ran     bool // TestCommandsOfPages in examples/agent compares blocks of text from here on
}

// canBreak reports whether a line can be broken. URLs cannot be broken. Neither can output that a
// test compares: that of an example, and that in text blocks after commands on a page.
func (l *lineReader) canBreak(line string) bool {
	if tag, ok := strings.CutPrefix(line, "```"); ok {
		l.inBlock = !l.inBlock
		if l.inBlock {
			l.block, l.ran = tag, tag == "sh" || tag == "text" && l.ran
		}
	}
	l.output = strings.HasPrefix(line, "//") && (l.output ||
		strings.HasPrefix(line, "// Output:") || strings.HasPrefix(line, "// Unordered output:"))
	words := strings.Fields(strings.TrimLeft(line, "-*/# "))
	url := len(words) == 1 && strings.Contains(words[0], "://")
	printed := l.inBlock && l.block == "text" && l.ran
	return !url && !l.output && !printed
}
