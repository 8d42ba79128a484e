// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The worked example of policy as lookups equals a golden file.
func TestGuideShowsTheRuleset(t *testing.T) {
	guide, err := os.ReadFile("../../docs/nft.md")
	require.NoError(t, err)
	golden, err := os.ReadFile("../../dataplane/nft/render/testdata/golden/lookups/example.nft")
	require.NoError(t, err)
	_, block, _ := strings.Cut(string(guide), "**An example.**")
	_, block, _ = strings.Cut(block, "```text\n")
	block, _, ok := strings.Cut(block, "```")
	require.True(t, ok)
	has := map[string]bool{}
	for line := range strings.Lines(string(golden)) {
		has[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, "     # ")
		require.True(t, has[strings.TrimSpace(line)], "%q is not in the golden file", line)
	}
}
