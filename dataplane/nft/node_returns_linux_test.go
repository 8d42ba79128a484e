// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// S178: a node that is removed and added again exchanges IP in IP with this node at once. Its
// connection has ended, but the packets of this node are not late replies. If policy denies the
// packets meanwhile, they drop.
func TestIPIPPassesAfterNodeIsAddedAgain(t *testing.T) {
	nfttest.EachForm(t, testIPIPPassesAfterNodeIsAddedAgain)
}

func testIPIPPassesAfterNodeIsAddedAgain(t *testing.T, classes render.ClassesConfig) {
	cfg := ending(classes, conntrack.Config{})
	cfg.Renderer.Host = policy.HostConfig{VXLANFromNodesOnly: true, IPIPFromNodesOnly: true}
	s := newSpecialFlood(t, cfg)
	require.NoError(t, s.plane.Close())
	d, at := openEnding(t, s.node, cfg), dptest.NewState()
	become := func(to dptest.State) {
		require.NoError(t, d.Apply(t.Context(), dptest.Transition(at, to)))
		at = to
		swept(t, d)
	}
	without, eth0 := shop(), policy.Key{Kind: policy.KindHostEndpoint, Name: "eth0"}
	without.HostEndpoints[eth0] = &dataplane.HostEndpoint{
		Interface: "eth0", Profiles: []string{"all"},
	}
	with, node := without.Clone(), &dataplane.Node{Name: "n2"}
	for _, a := range s.outside() {
		node.Addresses = append(node.Addresses, netip.PrefixFrom(a, a.BitLen()))
	}
	with.Nodes["n2"] = node

	own, other := nfttest.FlowEnd{Addr: s.host()[0], Own: true}, endOf("eth0", s.outside()[0])
	passes := func(from, to nfttest.FlowEnd) bool {
		w := wireFlow{from: from, to: to, Flow: verdict.Flow{Src: from.Addr, Dst: to.Addr, Protocol: 4}}
		return w.passes(t, s.wire)
	}
	become(with)
	require.True(t, passes(other, own) && passes(own, other))
	become(without)
	require.False(t, passes(other, own))
	become(with)
	require.True(t, passes(own, other) && passes(other, own))

	for _, nodes := range []bool{false, true} {
		to := without
		if nodes {
			to = with
		}
		to = to.Clone()
		to.HostEndpoints[eth0] = &dataplane.HostEndpoint{Interface: "eth0"}
		become(to)
		require.False(t, passes(other, own))
	}
}
