// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
)

func TestClassStats(t *testing.T) {
	r, err := render.New(render.Config{})
	require.NoError(t, err)
	require.Zero(t, r.ClassStats())
	r.Update(nfttest.Transition(nfttest.CountedState()))
	require.Equal(t, nfttest.ClassCounts(), r.ClassStats())
	require.Equal(t, nfttest.ClassCounts(), r.Clone().ClassStats())
	r.Update(dptest.Transition(nfttest.CountedState(), dptest.NewState()))
	require.Zero(t, r.ClassStats())

	bounded, err := render.New(render.Config{Classes: render.ClassesConfig{MaxPerGroup: 2}})
	require.NoError(t, err)
	bounded.Update(nfttest.Transition(nfttest.CountedState()))
	require.Equal(
		t, render.ClassStats{Addresses: 2, Ranges: 1, Classes: 3, Groups: 2, ChainGroups: 1, Outcomes: 1},
		bounded.ClassStats(),
	)
}
