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

// TestTroubleshootingNamesRealTexts checks the last table of docs/troubleshooting.md. Each text in
// the table must be in a message of the code, and each metric in docs/agent.md. The agent's tests
// check the metrics in docs/agent.md. Each link reference in the table must have a definition.
// TestLinksHaveTargets checks the links.
func TestTroubleshootingNamesRealTexts(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	require.NoError(t, err)
	agent, err := os.ReadFile(filepath.Join(root, "docs", "agent.md"))
	require.NoError(t, err)
	var code strings.Builder
	for _, path := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		code.Write(text)
	}
	joined := regexp.MustCompile(`" \+\s+"`).ReplaceAllString(code.String(), "") // a literal on two lines is one text
	_, table, ok := strings.Cut(string(page), "| text or metric | section |")
	require.True(t, ok)
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\[[^]]+\\])(\\([^)]+\\))? \\|$")
	rows := row.FindAllStringSubmatch(table, -1)
	require.NotEmpty(t, rows)
	const ruler = 1 // |---|---|
	require.Equal(t, strings.Count(table, "\n|")-ruler, len(rows), "a row is malformed")
	for _, row := range rows {
		if section, target := row[2], row[3]; target == "" {
			require.Contains(t, table, "\n"+section+": #", "no definition of the link reference")
		}
		if strings.HasPrefix(row[1], "wayleave_") {
			require.Contains(t, string(agent), "`"+row[1])
			continue
		}
		require.True(t, strings.Contains(joined, row[1]), "no message has %q", row[1])
	}
}
