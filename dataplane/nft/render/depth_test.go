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

// Each chain on the way of a packet may go to a shadow, so no more than half the depth that the kernel
// has room for may be in use, whatever the options. One level more is in use if rules count or log,
// and a tier with a Pass rule has a chain of its own in an outcome: see "Counting and logging" in docs/nft.md.
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
