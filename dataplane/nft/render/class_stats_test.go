// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

func TestClassStats(t *testing.T) {
	r, err := render.New(render.Config{})
	require.NoError(t, err)
	empty := render.ClassStats{MaxPerGroup: 65_536, MaxTotal: 400_000}
	require.Equal(t, empty, r.ClassStats())
	r.Update(nfttest.Transition(nfttest.CountedState()))
	require.Equal(t, nfttest.ClassCounts(), r.ClassStats())
	require.Equal(t, nfttest.ClassCounts(), r.Clone().ClassStats())
	r.Update(dptest.Transition(nfttest.CountedState(), dptest.NewState()))
	require.Equal(t, empty, r.ClassStats())

	bounded, err := render.New(render.Config{Classes: render.ClassesConfig{MaxPerGroup: 6}})
	require.NoError(t, err)
	bounded.Update(nfttest.Transition(nfttest.CountedState()))
	want := render.ClassStats{
		Addresses: 2, Ranges: 1, Classes: 3, Groups: 2, ChainGroups: 1, Outcomes: 1,
		Chains: []render.ClassGroup{nfttest.CountedGroup()}, MaxPerGroup: 6, MaxTotal: 400_000,
	}
	want.Largest = nfttest.CountedGroup() // the other direction, in which there is no policy
	want.Largest.Direction, want.Largest.Cost = "egress", 0
	want.Largest.Tiers, want.Largest.Policy = "", policy.Key{}
	require.Equal(t, want, bounded.ClassStats())
	const first = "ingress of WorkloadEndpoint/shop/way0 and 1 more, tier t, first policy Policy/p"
	require.Equal(t, first, want.Chains[0].String())
	require.Equal(t, "egress of WorkloadEndpoint/shop/way0 and 1 more", want.Largest.String())
}
