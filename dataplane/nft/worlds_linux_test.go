// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// TestRandomWorldsInKernel applies random worlds one by one. After each step, the listing equals
// that of the table's text loaded by nft. At the end, it also equals that of a new Dataplane with
// the same state.
func TestRandomWorldsInKernel(t *testing.T) { nfttest.EachFormInParallel(t, testRandomWorldsInKernel) }

func testRandomWorldsInKernel(t *testing.T, classes render.ClassesConfig) {
	for seed := range uint64(6) {
		c := nfttest.NewCluster(t, seed, classes)
		ns := nstest.New(t)
		interfaces := func() (map[string]render.Interface, error) { return nfttest.InterfacesWith(c.Interfaces), nil }
		d, err := nft.New(onFastPath(nft.Config{Renderer: c.Config, NetNS: ns.FD(), Interfaces: interfaces}))
		require.NoError(t, err)
		for range 5 {
			for range 12 {
				c.Mutate()
			}
			require.NoError(t, d.Apply(t.Context(), c.Graph.Flush()), "seed %d", seed)
			theirs := nstest.New(t)
			loadTable(t, theirs, d.Table())
			require.Equal(t, blocks(list(t, theirs)), blocks(list(t, ns)), "seed %d", seed)
		}
		fresh := nstest.New(t)
		again, err := nft.New(onFastPath(nft.Config{Renderer: c.Config, NetNS: fresh.FD(), Interfaces: interfaces}))
		require.NoError(t, err)
		require.NoError(t, again.Apply(t.Context(), c.Graph.Snapshot()))
		require.Equal(t, blocks(list(t, fresh)), blocks(list(t, ns)), "seed %d", seed)
		written := generation(t, ns)
		require.NoError(t, d.Close())
		adopted, err := nft.New(onFastPath(nft.Config{Renderer: c.Config, NetNS: ns.FD(), Interfaces: interfaces}))
		require.NoError(t, err)
		require.NoError(t, adopted.Apply(t.Context(), c.Graph.Snapshot()))
		require.EqualValues(t, int(written)+nstest.OwnerWrites(t, adopted.Stats().Owned), generation(t, ns),
			"seed %d: a restart only writes the owner of the table", seed)
		for _, one := range []*nft.Dataplane{again, adopted} {
			require.NoError(t, one.Close())
		}
	}
}
