// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Objects that ApplyVisible leaves do not accumulate if Finish is always cancelled, or if
// transactions fail. The kernel's table stays close to the desired one, and equals it once Finish
// succeeds.
func TestUnfinishedDoesNotAccumulate(t *testing.T) {
	for _, fails := range []bool{false, true} {
		c := nfttest.NewCluster(t, 3, render.ClassesConfig{})
		random := rand.New(rand.NewPCG(3, 21))
		ns := nstest.New(t)
		interfaces := func() (map[string]render.Interface, error) { return nfttest.InterfacesWith(c.Interfaces), nil }
		failing := errors.New("not now")
		broken := false
		d, err := nft.New(nft.Config{
			Renderer: c.Config, NetNS: ns.FD(), Interfaces: interfaces, BeforeWrite: func() error {
				if broken {
					return failing
				}
				return nil
			},
		})
		require.NoError(t, err)
		for range 60 {
			c.Mutate()
		}
		require.NoError(t, d.Apply(t.Context(), c.Graph.Flush()))
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		most := 0
		for range wireRounds(40, 1500) {
			for range 1 + random.IntN(4) {
				c.Mutate()
			}
			_ = d.ApplyVisible(t.Context(), c.Graph.Flush())
			if broken = fails && random.IntN(4) == 0; broken {
				_ = d.Finish(t.Context())
			} else {
				_ = d.Finish(cancelled)
			}
			broken = fails && random.IntN(6) == 0
			if random.IntN(10) == 0 {
				most = max(most, objects(nstest.NFT(t, ns, "", "-s", "list", "ruleset"))-objects(d.Table().String()))
			}
		}
		broken = false
		_ = d.Resync(t.Context())
		require.NoError(t, d.Apply(t.Context(), c.Graph.Flush()))
		nfttest.RequireLists(t, ns, d.Table())
		t.Logf("fails %t: at most %d objects more than desired; %+v", fails, most, d.Stats())
		require.Less(t, most, 2000)
		require.NoError(t, d.Close())
	}
}

// objects counts the chains, sets and maps of a listing.
func objects(listing string) (n int) {
	for line := range strings.Lines(listing) {
		line = strings.TrimSpace(line)
		for _, kind := range []string{"chain ", "set ", "map "} {
			if strings.HasPrefix(line, kind) && strings.HasSuffix(line, "{") {
				n++
			}
		}
	}
	return n
}
