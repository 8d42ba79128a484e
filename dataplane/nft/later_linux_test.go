// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// TestRandomWorldsUnfinished leads the kernel through random worlds without a wait for grace
// periods. The kernel refuses nothing, so nothing is read back, and once all is finished the table is
// the desired one.
func TestRandomWorldsUnfinished(t *testing.T) {
	unfinished := 0
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 20))
		c := nfttest.NewCluster(t, seed, render.ClassesConfig{})
		ns := nstest.New(t)
		interfaces := func() (map[string]render.Interface, error) { return nfttest.InterfacesWith(c.Interfaces), nil }
		d, err := nft.New(nft.Config{Renderer: c.Config, NetNS: ns.FD(), Interfaces: interfaces})
		require.NoError(t, err)
		require.NoError(t, d.Apply(t.Context(), c.Graph.Flush()))
		for range 60 {
			for range 1 + random.IntN(4) {
				c.Mutate()
			}
			require.NoError(t, d.ApplyVisible(t.Context(), c.Graph.Flush()), "seed %d", seed)
			if d.Unfinished() != nil {
				unfinished++
			}
			if random.IntN(10) == 0 {
				require.NoError(t, d.Finish(t.Context()))
				require.Nil(t, d.Unfinished())
			}
		}
		require.NoError(t, d.Finish(t.Context()))
		require.EqualValues(t, 1, d.Stats().Readings, "seed %d: what was refused is read back", seed)
		theirs := nstest.New(t)
		loadTable(t, theirs, d.Table())
		require.Equal(t, blocks(list(t, theirs)), blocks(list(t, ns)), "seed %d", seed)
		require.NoError(t, d.Close())
	}
	t.Log(unfinished, "batches left something")
	require.Greater(t, unfinished, 20)
}
