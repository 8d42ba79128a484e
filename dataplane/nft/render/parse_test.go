// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// TestRandomTablesParse: Parse reads the tables of random states back from their texts.
func TestRandomTablesParse(t *testing.T) { nfttest.EachForm(t, testRandomTablesParse) }

func testRandomTablesParse(t *testing.T, classes render.ClassesConfig) {
	for seed := range uint64(8) {
		config := render.Config{Classes: classes, Counters: seed%2 == 0}
		table, _ := nfttest.Rendered(t, config, nfttest.Transition(nfttest.NewWorld(seed, 3).State()))
		got, err := ruleset.Parse(table.String())
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, table.String(), got.String(), "seed %d", seed)
		require.True(t, table.Equal(got), "seed %d", seed)
	}
}
