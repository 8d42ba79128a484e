// SPDX-License-Identifier: Apache-2.0

//go:build linux && flowtable

package nft_test

import "github.com/wayleave/wayleave/dataplane/nft"

// onFastPath enables the fast path in every test whose configuration allows it. Verdicts must not change.
func onFastPath(cfg nft.Config) nft.Config {
	if !cfg.Renderer.ReversePath && len(cfg.Renderer.Bridges) == 0 && !cfg.Flowtable.Enabled {
		cfg.Flowtable = nft.FlowtableConfig{Enabled: true, Uplinks: []string{"up0", "eth0", "out0"}}
	}
	return cfg
}
