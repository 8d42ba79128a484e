// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// TestParseReadsAsNft: nft compiles a rule, and the text of the parsed rule, to the same
// instructions.
func TestParseReadsAsNft(t *testing.T) {
	ns := nstest.New(t)
	counts := regexp.MustCompile(`counter pkts \d+ bytes \d+`)
	instructions := func(text string) string {
		return counts.ReplaceAllString(nstest.NFT(t, ns, text, "--debug=netlink", "-c", "-f", "-"), "counter")
	}
	for _, c := range ruleTexts() {
		text := ruleTable(c[0], c[1])
		table, err := ruleset.Parse(text)
		require.NoError(t, err)
		want := instructions(text)
		require.Contains(t, want, "[ ", text)
		require.Equal(t, want, instructions(table.String()), text)
	}
}
