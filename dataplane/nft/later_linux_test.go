// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// TestRandomWorldsUnfinished applies random worlds one by one without a wait for grace periods. The
// kernel refuses nothing, so nothing is read back. After Finish, the table is the desired one.
func TestRandomWorldsUnfinished(t *testing.T) {
	unfinished := 0
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 20))
		c := nfttest.NewCluster(t, seed, render.ClassesConfig{})
		ns := nstest.New(t)
		interfaces := func() (map[string]render.Interface, error) { return nfttest.InterfacesWith(c.Interfaces), nil }
		d, err := nft.New(nft.Config{Renderer: c.Config, NetNS: ns.FD(), Interfaces: interfaces})
		require.NoError(t, err)
		require.NoError(t, d.Apply(t.Context(), c.Graph.Flush()))
		for range 60 {
			for range 1 + random.IntN(4) {
				c.Mutate()
			}
			require.NoError(t, d.ApplyVisible(t.Context(), c.Graph.Flush()), "seed %d", seed)
			if d.Unfinished() != nil {
				unfinished++
			}
			if random.IntN(10) == 0 {
				finish(t, d)
			}
		}
		finish(t, d)
		require.EqualValues(t, 1, d.Stats().Readings, "seed %d: the table is read back after a refusal", seed)
		theirs := nstest.New(t)
		loadTable(t, theirs, d.Table())
		require.Equal(t, blocks(list(t, theirs)), blocks(list(t, ns)), "seed %d", seed)
		require.NoError(t, d.Close())
	}
	t.Log(unfinished, "batches left objects to Finish")
	require.Greater(t, unfinished, 20)
}

// finish calls Finish until nothing is unfinished.
func finish(t *testing.T, d *nft.Dataplane) {
	t.Helper()
	for d.Unfinished() != nil {
		require.NoError(t, d.Finish(t.Context()))
	}
}

// receiving is the shop, where way2 and way3 receive from some sets. The set s:a has the given
// addresses, and s:b has another one.
func receiving(a dptest.Set, by2, by3 []dataplane.IPSetID) dptest.State {
	s := shop()
	s.Sets["s:a"], s.Sets["s:b"] = a, members("192.0.2.2")
	for name, ids := range map[string][]dataplane.IPSetID{"way2": by2, "way3": by3} {
		key := nfttest.PolicyKey("to-" + name)
		p := &dataplane.Policy{Tier: "default"}
		for _, id := range ids {
			p.Ingress = append(p.Ingress, dataplane.Rule{ID: string(id), Action: policy.Allow, Source: set(id)})
		}
		s.Policies[key] = p
		s = edit(s, name, func(e *dataplane.Endpoint) {
			e.Ingress = []dataplane.TierPolicies{{
				Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key},
			}}
		})
	}
	return s
}

// TestUnfinishedClassIsReached: the outcome of a class without addresses is left to Finish. Then
// the class gets an address again, and policy has no outcome for it any more. No packet uses the
// old outcome.
func TestUnfinishedClassIsReached(t *testing.T) {
	ns := nstest.New(t)
	d := open(t, ns, render.Config{})
	both, one := []dataplane.IPSetID{"s:a", "s:b"}, []dataplane.IPSetID{"s:b"}
	states := []dptest.State{
		receiving(members("192.0.2.1"), both, one),
		receiving(members(), both, one),
		receiving(members("192.0.2.1"), one, both),
	}
	last := dptest.NewState()
	for i, s := range states {
		require.NoError(t, d.ApplyVisible(t.Context(), dptest.Transition(last, s)))
		if last = s; i == 1 {
			require.NotNil(t, d.Unfinished())
		}
	}
	theirs := nstest.New(t)
	loadTable(t, theirs, d.Table())
	require.Equal(t, blocks(list(t, theirs)), blocks(list(t, ns)))
}

// TestUnfinishedLeavesNoBaseChain: a base chain sees packets as long as it exists, so it is not
// left to Finish. Otherwise it would outlive the guard of new translations.
func TestUnfinishedLeavesNoBaseChain(t *testing.T) {
	ns := nstest.New(t)
	d := open(t, ns, render.Config{})
	ids := []dataplane.IPSetID{"s:a", "s:b"}
	first := edit(receiving(members("192.0.2.1"), ids, ids), "way2", func(e *dataplane.Endpoint) {
		e.NATs = []policy.IPNAT{{ExternalIP: addrs("198.51.100.1")[0], InternalIP: e.Addresses[0]}}
	})
	require.NoError(t, d.ApplyVisible(t.Context(), nfttest.Transition(first)))
	require.Contains(t, list(t, ns), "dnat ip to")
	second := receiving(members(), ids, ids)
	require.NoError(t, d.ApplyVisible(t.Context(), dptest.Transition(first, second)))
	require.NotContains(t, list(t, ns), "dnat ip to")
}
