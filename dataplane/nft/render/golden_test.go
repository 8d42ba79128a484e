// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// TestGolden compares the text of each scenario's table with its file. With -update it writes the
// files.
func TestGolden(t *testing.T) { nfttest.EachForm(t, testGolden) }

func testGolden(t *testing.T, classes render.ClassesConfig) {
	for _, sc := range scenarios(classes) {
		t.Run(sc.Name, func(t *testing.T) {
			table, errs := sc.rendered(t)
			require.Empty(t, errs)
			file := sc.golden("testdata")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(table.String()), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), table.String())
			parsed, err := ruleset.Parse(string(want))
			require.NoError(t, err)
			require.True(t, table.Equal(parsed))
		})
	}
}
