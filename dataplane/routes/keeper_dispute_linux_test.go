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

// Two Keepers with one protocol number, like those of two agents on a node, remove each other's
// objects a few times. Then both detect the dispute, and leave unwanted objects in place.
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

	// A resync removes no objects of the other.
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

	// Teardown removes disputed objects too.
	for range dispute.Changes {
		k.ip("route replace 10.1.0.0/24 dev a proto 219")
		k.mustApply()
	}
	k.ip("route replace 10.1.0.0/24 dev a proto 219")
	require.NoError(t, k.k.Teardown(t.Context()))
	require.Empty(t, k.ours("main"))
}

// A changed entry and an unwanted rule of another process are treated like a removed object: each
// change is counted, and leads to a dispute.
func TestKeeperDisputesChangedEntriesAndRules(t *testing.T) {
	m := routes.MAC{2, 0, 0, 0, 0, 1}
	for name, row := range map[string]struct {
		change string // a command of iproute2
		show   string // prints the object, in a state that differs after change
		spared bool   // the change stays while it is disputed
	}{
		"neighbour": {
			change: "ip neigh replace 10.1.0.1 dev a lladdr 02:00:00:00:00:99 proto 219 nud permanent",
			show:   "ip neigh show 10.1.0.1",
		},
		"FDB entry": {
			change: "bridge fdb replace 02:00:00:00:00:01 dev vx dst 192.0.2.99 self permanent",
			show:   "bridge fdb show dev vx",
		},
		"rule": {
			change: "ip rule add from 10.9.0.0/16 lookup 100 priority 77 protocol 219", show: "ip rule", spared: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeping(t, routes.KeeperConfig{}, "a")
			now := time.Now()
			k.k.SetClock(func() time.Time { return now })
			k.k.Set(
				routes.Neighbour{Addr: addr("10.1.0.1"), Interface: "a", MAC: m},
				routes.VXLAN{Name: "vx", VNI: 9, Port: 4789, Local: addr("192.0.2.1"), MAC: m, MTU: 1400},
				routes.FDB{MAC: m, Dst: addr("192.0.2.2"), Interface: "vx"},
			)
			k.mustApply()
			want := k.command(row.show)
			for range dispute.Changes {
				k.command(row.change)
				require.NotEqual(t, want, k.command(row.show))
				k.mustApply()
				require.Equal(t, want, k.command(row.show))
			}
			stats := k.k.Stats()
			require.EqualValues(t, dispute.Changes, stats.Repaired+stats.Swept)
			require.Equal(t, 1, stats.Disputed)
			k.command(row.change)
			k.mustApply()
			require.Equal(t, row.spared, !slices.Equal(want, k.command(row.show)))
			now = now.Add(dispute.Quiet)
			k.mustApply()
			require.Equal(t, want, k.command(row.show))
			require.Zero(t, k.k.Stats().Disputed)
		})
	}
}
