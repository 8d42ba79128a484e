// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/dispute"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// Two Keepers with one protocol number, as of two agents on a node, remove each other's objects a
// few times. Then both detect the dispute, and leave unwanted objects in place.
func TestKeepersWithOneProtocolLeaveRoutes(t *testing.T) {
	first := newKeeping(t, routes.KeeperConfig{}, "a")
	second := &keeping{node: first.node, k: first.another(routes.KeeperConfig{})}
	monitor := first.listen(rtnl.GroupRoutes, rtnl.GroupNeighbours)
	first.k.Set(
		routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"},
		routes.Route{Dst: prefix("2001:db8:1::/64"), Interface: "a"},
		routes.Neighbour{Addr: addr("10.1.0.1"), Interface: "a", MAC: routes.MAC{2, 0, 0, 0, 0, 1}},
	)
	second.k.Set(routes.Route{Dst: prefix("10.2.0.0/24"), Interface: "a"})
	first.mustApply()
	first.watch()
	second.mustApply()
	second.watch()
	both := []string{
		"10.1.0.0/24 dev a scope link", "10.2.0.0/24 dev a scope link", "2001:db8:1::/64 dev a metric 1024 pref medium",
	}
	there := func() bool {
		return slices.Equal(both, first.ours("main")) && len(first.lines("neigh show proto 219")) == 1
	}
	disputed := func() bool { return first.k.Stats().Disputed > 0 && second.k.Stats().Disputed > 0 }
	first.await(monitor, "both notice", func() bool { return disputed() && there() })

	// Reading everything takes nothing of the other.
	require.NoError(t, first.k.Resync(t.Context()))
	require.NoError(t, second.k.Resync(t.Context()))
	first.await(monitor, "there", there)
	for _, k := range []*routes.Keeper{first.k, second.k} {
		s := k.Stats()
		t.Logf("repaired %d, swept %d", s.Repaired, s.Swept)
		require.Less(t, s.Repaired+s.Swept, uint64(100))
	}
}

// Objects of another process are removed once they are no longer disputed.
func TestKeeperSweepsAfterADispute(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	now := time.Now()
	k.k.SetClock(func() time.Time { return now })
	k.mustApply()
	for range dispute.Changes {
		k.ip("route add 10.1.0.0/24 dev a proto 219")
		k.mustApply()
		require.Empty(t, k.ours("main"))
	}
	require.Equal(t, 1, k.k.Stats().Disputed)
	require.EqualValues(t, dispute.Changes, k.k.Stats().Swept)
	k.ip("route add 10.1.0.0/24 dev a proto 219")
	k.mustApply()
	require.Len(t, k.ours("main"), 1)
	now = now.Add(dispute.Quiet)
	k.mustApply()
	require.Empty(t, k.ours("main"))
	require.Zero(t, k.k.Stats().Disputed)

	// Teardown leaves nothing.
	for range dispute.Changes {
		k.ip("route replace 10.1.0.0/24 dev a proto 219")
		k.mustApply()
	}
	k.ip("route replace 10.1.0.0/24 dev a proto 219")
	require.NoError(t, k.k.Teardown(t.Context()))
	require.Empty(t, k.ours("main"))
}
