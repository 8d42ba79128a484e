// SPDX-License-Identifier: Apache-2.0

//go:build linux && flowtable

package nft_test

import "github.com/wayleave/wayleave/dataplane/nft"

// onFastPath uses the fast path in all tests whose configuration allows that: no verdict may be another.
func onFastPath(cfg nft.Config) nft.Config {
	if !cfg.Renderer.ReversePath && len(cfg.Renderer.Bridges) == 0 && !cfg.Flowtable.Enabled {
		cfg.Flowtable = nft.FlowtableConfig{Enabled: true, Uplinks: []string{"up0", "eth0", "out0"}}
	}
	return cfg
}
