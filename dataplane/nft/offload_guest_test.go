// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package nft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// offloads returns a router without connection tracking, and one whose Dataplane uses the fast
// path. The kernel must have nft_flow_offload.
func offloads(b *testing.B, w judged) map[string]*rig {
	b.Helper()
	in, out := w.interfaces()
	nothing := newRig(b, in, out)
	load(b, nothing.node, "table inet nothing {}\n")
	f := form{flowtable: nft.FlowtableConfig{Enabled: true}}
	if !w.local {
		f.flowtable.Uplinks = []string{"eth1"}
	}
	fast, _, _ := w.program(b, f)
	require.Contains(b, nstest.NFT(b, fast.node, "", "list", "tables"), "table inet wayleave-flowtable\n")
	return map[string]*rig{"nothing": nothing, "flowtable": fast}
}
