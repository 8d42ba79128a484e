// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// A node restarts alternately with lookups and with chains. Denied packets never pass meanwhile,
// and allowed packets pass with both. A restart that keeps lookups or chains only writes the owner
// of the table.
func TestWireRestartBetweenLookupsAndChains(t *testing.T) {
	s, tiers := denied(shop())
	s.Sets["s:bad"] = members(workloadAddrs(0)[0].String())
	s.Policies[tiers[0].Policies[0]] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{ID: "tcp", Action: policy.Allow, Protocol: policy.ProtocolTCP, Source: set("s:bad")},
		{ID: "bad", Action: policy.Deny, Source: set("s:bad")},
		nfttest.AllowAll("rest"),
	}}
	s = edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = tiers })
	b := newTracked(t, render.ClassesConfig{}, s)
	for round := range 60 {
		cfg := render.Config{Classes: nfttest.Forms()[(round+1)%2]}
		require.NoError(t, b.plane.Close())
		b.at, b.plane = dptest.NewState(), open(t, b.node, cfg)
		b.neverPasses(t, 1, []dptest.State{s}, func(f verdict.Flow) wireFlow { return pairFlow(0, 1, 0, f) })
		b.port++
		require.Equal(t, []bool{true}, b.volley(t, []wireFlow{pairFlow(0, 1, 0, verdict.Flow{
			Protocol: policy.ProtocolTCP, SrcPort: b.port, DstPort: 80,
		})}))
		require.NoError(t, b.plane.Close())
		again := open(t, b.node, cfg)
		require.NoError(t, again.Apply(t.Context(), dptest.Transition(dptest.NewState(), s)))
		ofOwner := nstest.OwnerWrites(t, again.Stats().Owned)
		require.EqualValues(t, ofOwner, again.Stats().Transactions, "it only takes the table over")
		require.NoError(t, again.Close())
	}
}
