// SPDX-License-Identifier: Apache-2.0

//go:build linux && flowtable

package nft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The tag installs a flowtable. Otherwise, the other tests would not test the fast path.
func TestTagInstallsFlowtable(t *testing.T) {
	n := newNetwork(t)
	d := open(t, n.node, render.Config{})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	require.Contains(t, nstest.NFT(t, n.node, "", "list", "tables"), "table inet wayleave-flowtable\n")
}

// onFastPath enables the fast path in tests whose configuration allows it. Verdicts must not
// change.
func onFastPath(cfg nft.Config) nft.Config {
	if !cfg.Renderer.ReversePath && len(cfg.Renderer.Bridges) == 0 && !cfg.Flowtable.Enabled {
		cfg.Flowtable = nft.FlowtableConfig{Enabled: true, Uplinks: []string{"up0", "eth0", "eth1", "eth2", "out0"}}
	}
	return cfg
}
