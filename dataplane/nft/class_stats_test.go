// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// countedState returns a state with two endpoints of one group in each direction. Their policy has
// two sets, one of them with a prefix.
func countedState() dptest.State {
	s := dptest.NewState()
	s.InSync = true
	s.Sets["s:a"] = dptest.Set{Members: []dataplane.Member{
		{Prefix: netip.MustParsePrefix("10.0.0.1/32")}, {Prefix: netip.MustParsePrefix("fd00::1/128")},
	}}
	s.Sets["s:b"] = dptest.Set{Members: []dataplane.Member{{Prefix: netip.MustParsePrefix("10.1.0.0/16")}}}
	key := policy.Key{Kind: policy.KindPolicy, Name: "p"}
	s.Policies[key] = &dataplane.Policy{Ingress: []dataplane.Rule{
		{ID: "1", Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:a"}}},
		{ID: "2", Action: policy.Allow, Protocol: 6, Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:b"}}},
	}}
	for i := range 2 {
		name := fmt.Sprint("way", i)
		s.Endpoints[endpoint(name)] = &dataplane.Endpoint{
			Interface: name, Addresses: ips(fmt.Sprint("10.9.0.", i)),
			Ingress: []dataplane.TierPolicies{{Tier: "t", DefaultAction: policy.Deny, Policies: []policy.Key{key}}},
		}
	}
	return s
}

// classCounts are the counts of countedState. The prefix makes one class, the addresses one for
// each family. There are outcomes for the two sets, for all other addresses, and for all sent packets.
func classCounts() render.ClassStats {
	return render.ClassStats{Addresses: 2, Ranges: 1, Classes: 3, Groups: 2, Elements: 3, Outcomes: 4}
}

func TestClassStats(t *testing.T) {
	r, err := render.New(render.Config{})
	require.NoError(t, err)
	require.Zero(t, r.ClassStats())
	r.Update(transition(countedState()))
	require.Equal(t, classCounts(), r.ClassStats())
	require.Equal(t, classCounts(), r.Clone().ClassStats())
	r.Update(dptest.Transition(countedState(), dptest.NewState()))
	require.Zero(t, r.ClassStats())

	bounded, err := render.New(render.Config{Classes: render.ClassesConfig{MaxPerGroup: 2}})
	require.NoError(t, err)
	bounded.Update(transition(countedState()))
	require.Equal(
		t, render.ClassStats{Addresses: 2, Ranges: 1, Classes: 3, Groups: 2, ChainGroups: 1, Outcomes: 1},
		bounded.ClassStats(),
	)
}
