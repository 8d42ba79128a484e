// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
)

// An equal proxy entry of another process is accepted, and stays after Teardown.
func TestForeignProxyStays(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	proxies := func() []string {
		return append(k.lines("-4 neigh show proxy dev a"), k.lines("-6 neigh show proxy dev a")...)
	}
	k.ip("neigh add proxy 169.254.1.1 dev a")
	k.ip("-6 neigh add proxy fe80::1 dev a protocol 77")
	theirs := proxies()
	require.Len(t, theirs, 2)
	objects := []routes.Object{
		routes.Proxy{Addr: addr("169.254.1.1"), Interface: "a"},
		routes.Proxy{Addr: addr("fe80::1"), Interface: "a"},
		routes.Proxy{Addr: addr("169.254.1.2"), Interface: "a"},
	}
	k.k.Set(objects...)
	k.mustApply()
	require.Len(t, proxies(), 3)
	require.Subset(t, proxies(), theirs)
	k.k.Delete(objects...)
	k.mustApply()
	require.Equal(t, theirs, proxies())

	// Once it is deleted, ours is added.
	k.k.Set(objects[0])
	k.mustApply()
	k.ip("neigh del proxy 169.254.1.1 dev a")
	require.NoError(t, k.k.Resync(t.Context()))
	require.Len(t, proxies(), 2)
	require.NoError(t, k.k.Teardown(t.Context()))
	require.Equal(t, theirs[1:], proxies())
}

// S172: a foreign route that equals the wanted one stays. Only its owner restores it. If its
// interface is down and up again, ours is added.
func TestEqualForeignRouteIsAccepted(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a", "b")
	theirs := []string{"route add 10.1.0.1/32 dev a proto static", "-6 route add fd01::1/128 dev a proto static"}
	others := func() []string {
		return append(k.lines("route show proto static"), k.lines("-6 route show proto static")...)
	}
	for _, command := range theirs {
		k.ip(command)
	}
	before := others()
	require.Len(t, before, 2)
	objects := []routes.Object{
		routes.Route{Dst: prefix("10.1.0.1/32"), Interface: "a"},
		routes.Route{Dst: prefix("fd01::1/128"), Interface: "a"},
	}
	k.k.Set(objects...)
	k.mustApply()
	require.NoError(t, k.k.Resync(t.Context()))
	require.Empty(t, k.ours("main"))
	require.Equal(t, before, others())

	for _, command := range theirs {
		k.ip("%s", strings.Replace(command, "add", "del", 1))
	}
	require.ErrorIs(t, k.k.Apply(t.Context()), routes.ErrCeded)
	require.ErrorIs(t, k.k.Resync(t.Context()), routes.ErrCeded)
	require.Empty(t, k.ours("main"))
	for _, command := range theirs {
		k.ip("%s", command)
	}
	k.mustApply()
	require.Empty(t, k.ours("main"))

	k.k.Delete(objects...)
	k.mustApply()
	require.Equal(t, before, others())
	k.k.Set(objects...)
	k.mustApply()
	require.NoError(t, k.k.Teardown(t.Context()))
	require.Equal(t, before, others())
}

// S172: a route of another process is deleted. Then ours is added if the interface goes down and up
// again, or if the wanted route changes.
func TestDeletedForeignRouteIsReplaced(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a", "b")
	k.ip("route add 10.1.0.1/32 dev a proto static")
	k.ip("route add 10.1.0.2/32 dev a proto static")
	k.k.Set(
		routes.Route{Dst: prefix("10.1.0.1/32"), Interface: "a"},
		routes.Route{Dst: prefix("10.1.0.2/32"), Interface: "a"},
	)
	k.mustApply()
	k.ip("route del 10.1.0.1/32 dev a")
	k.ip("route del 10.1.0.2/32 dev a")
	require.ErrorIs(t, k.k.Apply(t.Context()), routes.ErrCeded)
	k.k.Set(routes.Route{Dst: prefix("10.1.0.2/32"), Interface: "b"})
	require.ErrorIs(t, k.k.Apply(t.Context()), routes.ErrCeded)
	require.Equal(t, []string{"10.1.0.2 dev b scope link"}, k.ours("main"))
	k.ip("link set dev a down")
	k.ip("link set dev a up")
	k.mustApply()
	require.Equal(t, []string{"10.1.0.1 dev a scope link", "10.1.0.2 dev b scope link"}, k.ours("main"))

	// A different one is a fault.
	k.ip("route add 10.1.0.3/32 dev b proto static")
	k.k.Set(routes.Route{Dst: prefix("10.1.0.3/32"), Interface: "a"})
	require.ErrorIs(t, k.k.Apply(t.Context()), routes.ErrForeign)
	k.ip("route del 10.1.0.3/32 dev b")
	k.mustApply()
}

// S172: after a new address of the interface, a deleted foreign route or entry is not replaced: the
// kernel adds link-local addresses late.
func TestNewAddressDoesNotReplaceForeignObjects(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	k.ip("route add 10.1.0.1/32 dev a proto static")
	k.ip("neigh add 10.1.0.1 lladdr 02:00:00:00:00:07 dev a nud permanent")
	k.k.Set(
		routes.Route{Dst: prefix("10.1.0.1/32"), Interface: "a"},
		routes.Neighbour{Addr: addr("10.1.0.1"), Interface: "a", MAC: routes.MAC{2, 0, 0, 0, 0, 7}},
	)
	k.mustApply()
	k.ip("route del 10.1.0.1/32 dev a")
	k.ip("neigh del 10.1.0.1 dev a")
	k.ip("addr add 10.9.0.1/24 dev a")
	err := k.k.Apply(t.Context())
	require.ErrorContains(t, err, "add route")
	require.ErrorContains(t, err, "add neighbour")
	require.Empty(t, k.ours("main"))
}

// S172: an equal neighbour entry of another process is accepted, and only its owner restores it.
func TestEqualForeignNeighbourIsAccepted(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	const theirs = "neigh add 10.0.0.1 lladdr 02:00:00:00:00:01 dev a nud permanent"
	k.ip(theirs)
	k.k.Set(routes.Neighbour{Addr: addr("10.0.0.1"), Interface: "a", MAC: routes.MAC{2, 0, 0, 0, 0, 1}})
	k.mustApply()
	k.ip("neigh del 10.0.0.1 dev a")
	require.ErrorIs(t, k.k.Apply(t.Context()), routes.ErrCeded)
	k.ip("neigh add 10.0.0.1 lladdr 02:00:00:00:00:07 dev a nud stale") // like an entry that the kernel learns
	require.ErrorIs(t, k.k.Apply(t.Context()), routes.ErrCeded)
	k.ip("neigh del 10.0.0.1 dev a")
	k.ip(theirs)
	k.mustApply()
	require.Empty(t, k.lines("neigh show proto 219"))
	require.NoError(t, k.k.Teardown(t.Context()))
	require.Len(t, k.lines("neigh show nud permanent 10.0.0.1"), 1)
}

// A change of our route does not replace a foreign route that the kernel lists before ours.
func TestForeignRouteBeforeOursStays(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a", "b")
	r := routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"}
	k.k.Set(r)
	k.mustApply()
	k.ip("route prepend blackhole 10.1.0.0/24 proto static")
	theirs := k.lines("route show proto static 10.1.0.0/24")
	require.Len(t, theirs, 1)
	r.Interface = "b"
	k.k.Set(r)
	require.ErrorIs(t, k.k.Apply(t.Context()), routes.ErrForeign)
	require.Equal(t, theirs, k.lines("route show proto static 10.1.0.0/24"))
	require.Empty(t, k.ours("main"))
	k.ip("route del blackhole 10.1.0.0/24 proto static")
	k.mustApply()
	require.Equal(t, []string{"10.1.0.0/24 dev b scope link"}, k.ours("main"))
}

// An equal foreign neighbour entry that changes is reported.
func TestChangedForeignNeighbourIsReported(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	k.ip("neigh add 10.0.0.1 lladdr 02:00:00:00:00:01 dev a nud permanent")
	k.k.Set(routes.Neighbour{Addr: addr("10.0.0.1"), Interface: "a", MAC: routes.MAC{2, 0, 0, 0, 0, 1}})
	k.mustApply()
	k.ip("neigh replace 10.0.0.1 lladdr 02:00:00:00:00:02 dev a nud permanent")
	require.ErrorIs(t, k.k.Apply(t.Context()), routes.ErrForeign)
	k.ip("neigh del 10.0.0.1 dev a")
	k.mustApply()
	require.Contains(t, k.ip("neigh show proto 219"), "10.0.0.1")
}

// A rule for all addresses equals the kernel's rule without addresses: it is adopted, and not
// recreated with each reading.
func TestKeeperRuleOfAllAddresses(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{})
	all := routes.Rule{Family: 4, Priority: 100, From: prefix("0.0.0.0/0"), To: prefix("10.0.0.0/8"), Table: 100}
	k.k.Set(all, routes.Rule{Family: 6, Priority: 100, To: prefix("::/0"), Table: 100})
	k.mustApply()
	k.k.Delete(all)
	k.k.Set(routes.Rule{Family: 4, Priority: 100, To: prefix("10.0.0.0/8"), Table: 100})
	plan, err := k.k.Plan(t.Context())
	require.NoError(t, err)
	require.Empty(t, plan)
}

// A gateway with a zone equals one without, because the route has the interface.
func TestKeeperGatewayWithZone(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	k.k.Set(routes.Route{Dst: prefix("fd01::/64"), Interface: "a", Gateway: addr("fe80::1%a")})
	k.mustApply()
	plan, err := k.k.Plan(t.Context())
	require.NoError(t, err)
	require.Empty(t, plan)
}

// The kernel merges two IPv6 routes with a gateway, under the protocol of the first: the Keeper
// repairs ours at once.
func TestMergedForeignRouteIsRepaired(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a", "b")
	k.k.Set(routes.Route{Dst: prefix("fd01::/64"), Interface: "a", Gateway: addr("fe80::1")})
	k.mustApply()
	k.ip("-6 route append fd01::/64 via fe80::9 dev b metric 1024 proto static")
	k.mustApply()
	require.Equal(t, []string{"fd01::/64 via fe80::1 dev a metric 1024 pref medium"}, k.ours("main"))
}
