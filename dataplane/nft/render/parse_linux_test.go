// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// TestListingsParse: Parse reads nft's listing of each golden file, with handles and counts, and
// returns the table of the file.
func TestListingsParse(t *testing.T) { nfttest.EachFormInParallel(t, testListingsParse) }

func testListingsParse(t *testing.T, classes render.ClassesConfig) {
	for _, sc := range scenarios(classes) {
		t.Run(sc.Name, func(t *testing.T) {
			text, err := os.ReadFile(sc.golden("testdata"))
			require.NoError(t, err)
			ns := nstest.New(t)
			load(t, ns, string(text))
			table, err := ruleset.Parse(string(text))
			require.NoError(t, err)
			listed, err := ruleset.Parse(nstest.NFT(t, ns, "", "-a", "list", "ruleset"))
			if sc.Name == "names" { // nft lists the interface named "way*" like the prefix "way".
				require.ErrorContains(t, err, `"way*": a set has no prefixes of interface names`)
				return
			}
			require.NoError(t, err)
			want, got := nfttest.AsListed(table), nfttest.AsListed(listed)
			require.Equal(t, want.String(), got.String())
			require.True(t, want.Equal(got))
		})
	}
}
