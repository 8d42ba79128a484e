// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLinksHaveTargets checks that the file of every relative link in the documentation exists, and
// the heading of its anchor. A link may be inline, or the definition of a link reference: [name]:
// target.
func TestLinksHaveTargets(t *testing.T) {
	link := regexp.MustCompile(`(?m)\]\(([^):]+)\)|^\[[^\]]+\]: ([^\s:]+)$`)
	for _, doc := range pages(t) {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to := m[1] + m[2]
			name, anchor, hasAnchor := strings.Cut(to, "#")
			target := doc
			if name != "" {
				target = filepath.Join(filepath.Dir(doc), name)
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", doc, to)
			if hasAnchor && strings.HasSuffix(target, ".md") {
				require.Contains(t, anchors(t, target), anchor, "%s links to %s", doc, to)
			}
		}
	}
}

// anchors returns the anchors of the headings of a page, as GitHub makes them.
// docs/.vitepress/config.mts has the same rule.
func anchors(t *testing.T, page string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	heading := regexp.MustCompile(`(?m)^#+ +(.*)$`)
	punctuation := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for i, part := range strings.Split(string(text), "```") {
		if i%2 == 1 {
			continue // a block of code
		}
		for _, m := range heading.FindAllStringSubmatch(part, -1) {
			anchor := punctuation.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
			list = append(list, strings.ReplaceAll(anchor, " ", "-"))
		}
	}
	return list
}

// TestPagesShowCompiledCode checks that each block of Go on a page is in a Go file, apart from
// indentation.
func TestPagesShowCompiledCode(t *testing.T) {
	var code strings.Builder
	for _, name := range files(t, ".go") {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		code.WriteString(unindented(string(text)))
	}
	block := regexp.MustCompile("(?s)```go\n(.*?)```")
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, b := range block.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(code.String(), unindented(b[1])) {
				t.Errorf("%s: in no Go file:\n%s", page, b[1])
			}
		}
	}
}

// TestReadmeShowsRunningExample checks that README's program has at most 40 lines and is the
// Example of the root package, whose output go test compares.
func TestReadmeShowsRunningExample(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(func Example\\(\\) .*?)```").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 1)
	require.LessOrEqual(t, strings.Count(blocks[0][1], "\n"), 40)
	example, err := os.ReadFile(filepath.Join(root, "example_test.go"))
	require.NoError(t, err)
	_, program, _ := strings.Cut(string(example), "func Example() ")
	program, _, _ = strings.Cut(program, "\n}\n")
	require.Contains(t, program, "// Output:")
	require.Contains(t, unindented("func Example() "+program+"\n}\n"), unindented(blocks[0][1]))
}

// unindented returns a text without the spaces and tabs at the beginning of its lines.
func unindented(text string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "")
}

// pages returns the paths of the pages in docs and in the root.
func pages(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	others, err := filepath.Glob(filepath.Join(root, "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, docs)
	return append(docs, others...)
}

// TestGlossaryIsShort: the glossary of CONTRIBUTING.md has at most 40 terms, in one line each.
// TestLinksHaveTargets checks that docs/glossary.md has the terms, too.
func TestGlossaryIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Glossary\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, list, _ := strings.Cut(section, "\n\n- ")
	terms := strings.Split(strings.TrimSpace(list), "\n- ")
	require.LessOrEqual(t, len(terms), 40)
	for _, term := range terms {
		require.Regexp(t, `^(- )?\[[^]]+\]\(docs/glossary\.md#[a-z-]+\): .`, term)
		require.NotContains(t, term, "\n")
	}
}
