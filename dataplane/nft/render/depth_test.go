// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Each chain of a packet may go to a shadow, so the table uses at most half of the kernel's depth,
// whatever the options. If rules count or log, there is one level more, and a tier with a Pass rule
// has its own chain in an outcome. See "Counting and logging" in docs/nft.md.
func TestChainsLeaveRoomForShadows(t *testing.T) { nfttest.EachForm(t, testChainsLeaveRoomForShadows) }

func testChainsLeaveRoomForShadows(t *testing.T, classes render.ClassesConfig) {
	for _, sc := range scenarios(classes) {
		for i := range 4 {
			cfg := sc.Config
			cfg.Reject, cfg.Counters = i%2 == 0, cfg.Counters || i/2 == 0
			table, errs := nfttest.Rendered(t, cfg, sc.Batches...)
			require.Empty(t, errs)
			s, err := ruleset.StateOf(table)
			require.NoError(t, err)
			depth := s.Depth()
			if cfg.Counters && strings.Contains(table.String(), "goto pass/") && !classes.TestHook.HasChains() {
				depth--
			}
			require.LessOrEqual(t, 2*depth+1, ruleset.MaxDepth, "%s, variant %d", sc.Name, i)
		}
	}
}
