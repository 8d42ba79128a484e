// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"fmt"
	"go/scanner"
	"go/token"
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
	// maxLiteral is the maximum width of a string literal whose line must fit.
	maxLiteral = 100
	// maxListed is the maximum number of lines in a failure.
	maxListed = 20
)

// TestLinesFitIn120Columns reads all text files except test data and recorded or generated files. A
// rune is a column, a tab is four.
func TestLinesFitIn120Columns(t *testing.T) {
	var offenders []string
	for _, path := range files(t, "") {
		if slices.Contains([]string{".sum", ".json"}, filepath.Ext(path)) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		if !utf8.Valid(text) { // a binary
			continue
		}
		for _, line := range tooLong(path, string(text)) {
			offenders = append(offenders, fmt.Sprintf("%s:%d", path, line))
		}
	}
	if n := len(offenders) - maxListed; n > 0 {
		offenders = append(offenders[:maxListed], fmt.Sprintf("and %d more", n))
	}
	report(t, "lines that are longer than 120 columns", offenders)
}

// TestLongLines checks which lines tooLong reports, and which are exempt.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("word ", 30)
	value := `"` + strings.Repeat("v", maxLiteral) + `"`
	for _, tt := range []struct {
		name, path, text string
		want             []int
	}{
		{"comment", "x.go", "package x\n\n// " + long, []int{3}},
		{"code", "x.go", "package x\n\nvar x = f(" + strings.Repeat("y, ", 40) + "y)", []int{3}},
		{"tabs", "x.go", "package x\n\nvar x = 1\n" + strings.Repeat("\t", 28) + "var y = 1", []int{4}},
		{"runes", "x.go", "package x\n\n// " + strings.Repeat("▸", 117), nil},
		{"literal", "x.go", "package x\n\nvar someName, another = " + value + ", 1", nil},
		{"two literals", "x.go", `package x; var x = "` + long[:70] + `" + "` + long[:70] + `"`, []int{1}},
		{"raw literal", "x.go", "package x\n\nvar x = `a\n" + long + "\n`", nil},
		{"directive", "x.go", "package x\n\n//go:generate " + long, nil},
		{"output", "x.go", "package x\n\nfunc f() {\n\t// Output:\n\t// " + long + "\n}\n\n// " + long, []int{8}},
		{"paragraph", "x.md", "# x\n\n" + long, []int{3}},
		{"table", "x.md", "| x |\n|---|\n| " + long + " |", []int{3}},
		{"script", "scripts/x", "#!/bin/sh\n" + long, []int{2}},
		{"code block", "x.md", "```sh\n" + long + "\n```\n" + long, []int{2, 4}},
		{"printed", "x.md", "```text\n" + long + "\n```\n" + long, []int{4}},
		{"output of Go", "x.md", "```go\n\t// Output:\n\t// " + long + "\n\t" + long + "\n```", []int{4}},
		{"link", "x.md", "- https://" + strings.Repeat("x", maxColumns) + "\n", nil},
	} {
		require.Equal(t, tt.want, tooLong(tt.path, tt.text), tt.name)
	}
}

// tooLong returns the numbers of the lines of a file that are too long and not exempt.
func tooLong(path, text string) (numbers []int) {
	exempt := func(string) map[int]bool { return nil }
	switch filepath.Ext(path) {
	case ".go":
		exempt = exemptGo
	case ".md":
		exempt = exemptMarkdown
	}
	lines := strings.Split(text, "\n")
	var skip map[int]bool
	for i, line := range lines {
		columns := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
		if columns <= maxColumns {
			continue
		}
		if skip == nil {
			skip = exempt(text)
		}
		if !skip[i+1] {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// exemptGo returns the lines with a wide string literal, those with a directive, and those with the
// output that an example expects.
func exemptGo(text string) map[int]bool {
	skip := map[int]bool{}
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	output := false
	for {
		pos, tok, value := s.Scan()
		line := file.Line(pos)
		switch tok {
		case token.EOF:
			return skip
		case token.STRING:
			for i, part := range strings.Split(value, "\n") {
				skip[line+i] = skip[line+i] || utf8.RuneCountInString(part) > maxLiteral
			}
		case token.COMMENT:
			output = output || beginsOutput(value)
			skip[line] = skip[line] || output || strings.HasPrefix(value, "//go:")
			continue
		}
		output = false
	}
}

// exemptMarkdown returns the lines of text blocks, which have the output of programs. It also
// returns the lines with the output that an example expects, and the lines that are a link.
func exemptMarkdown(text string) map[int]bool {
	skip := map[int]bool{}
	block, inBlock, output := "", false, false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if language, ok := strings.CutPrefix(line, "```"); ok {
			block, inBlock, output = language, !inBlock, false
			continue
		}
		output = inBlock && strings.HasPrefix(line, "//") && (output || beginsOutput(line))
		printed := inBlock && block == "text" || output
		words := strings.Fields(strings.TrimLeft(line, "-* "))
		link := len(words) == 1 && strings.Contains(words[0], "://")
		skip[i+1] = printed || link
	}
	return skip
}

// beginsOutput reports whether a comment is the one before the expected output of an example.
func beginsOutput(comment string) bool {
	return strings.HasPrefix(comment, "// Output:") || strings.HasPrefix(comment, "// Unordered output:")
}
