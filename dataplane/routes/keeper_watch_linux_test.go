// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// watch runs Watch until the test ends.
func (k *keeping) watch() {
	ctx, cancel := context.WithCancel(k.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.k.Watch(ctx, nil) }()
	k.Cleanup(func() {
		cancel()
		require.ErrorIs(k, <-ended, context.Canceled)
	})
}

// Watch ignores changes to the desired state since the last Apply: they may be half of a change. If
// it made them, a VXLAN device that changes would be deleted and added again.
func TestKeeperWatchIgnoresPendingChanges(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	old := routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"}
	meddled := routes.Route{Dst: prefix("10.2.0.0/24"), Interface: "a"}
	k.k.Set(old, meddled)
	k.mustApply()
	k.watch()
	monitor := k.listen(rtnl.GroupRoutes)
	k.k.Delete(old)
	k.k.Set(routes.Route{Dst: prefix("10.3.0.0/24"), Interface: "a"})
	before := []string{"10.1.0.0/24 dev a scope link", "10.2.0.0/24 dev a scope link"}
	for range 3 {
		k.ip("route del 10.2.0.0/24")
		k.await(monitor, "repaired", func() bool { return slices.Contains(k.ours("main"), before[1]) })
		require.Equal(t, before, k.ours("main"))
	}
	require.Equal(t, 2, k.k.Stats().Routes, "kept")
	plan, err := k.k.Plan(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ip route add 10.3.0.0/24 dev a scope link proto 219 table 254\n"+
		"ip route del 10.1.0.0/24 dev a scope link proto 219 table 254\n", plan)
	k.mustApply()
	require.Equal(t, []string{"10.2.0.0/24 dev a scope link", "10.3.0.0/24 dev a scope link"}, k.ours("main"))
}

// Failed changes are retried soon, also while an unknown route stays.
func TestKeeperRetriesWhileUnknownRouteStays(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{})
	k.k = k.another(routes.KeeperConfig{UnknownRouteTimeout: time.Hour})
	k.addLinks("a")
	k.ip("route add 10.9.0.0/24 dev a proto 219")
	refusals := 2
	k.k.Faulty(func(conn *rtnl.Conn, b *rtnl.Batch, failed func(i int, err error)) error {
		if refusals--; refusals >= 0 {
			for i := range b.Len() {
				failed(i, &rtnl.Error{Errno: syscall.ENOMEM})
			}
			return nil
		}
		return conn.Do(b, failed)
	})
	monitor := k.listen(rtnl.GroupRoutes)
	k.k.Set(routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"})
	require.Error(t, k.k.Apply(t.Context()))
	k.watch()
	k.await(monitor, "tried again", func() bool {
		return slices.Contains(k.ours("main"), "10.1.0.0/24 dev a scope link")
	})
	require.Contains(t, k.ours("main"), "10.9.0.0/24 dev a scope link", "has its time")
}

// Teardown removes unknown routes at once.
func TestKeeperTeardownRemovesUnknownRoutes(t *testing.T) {
	cfg := routes.KeeperConfig{UnknownRouteTimeout: time.Hour}
	k := newKeeping(t, cfg, "a")
	k.k.Set(routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"})
	k.mustApply()
	k.k = k.another(cfg)
	k.k.Set(routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"})
	k.mustApply()
	for _, last := range []*routes.Keeper{k.k, k.another(cfg)} {
		k.ip("route replace 10.1.0.0/24 dev a proto 219")
		require.NoError(t, last.Teardown(t.Context()))
		require.Empty(t, k.ours("main"))
	}
}

// If a connection breaks at any time, also during a dump, one more dump is made.
func TestKeeperReconnects(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a", "b")
	k.k.Set(routes.Neighbour{Addr: addr("10.0.0.9"), Interface: "a", MAC: routes.MAC{2, 0, 0, 0, 0, 1}})
	for i, breaks := range []func(){
		k.k.BreakChanges, k.k.BreakEvents, func() { k.k.BreakChanges(); k.k.BreakEvents() },
	} {
		dst := fmt.Sprintf("10.0.%d.0/24", i)
		k.mustApply()
		breaks()
		k.ip("route flush proto 219")
		k.k.Set(routes.Route{Dst: prefix(dst), Interface: "a"})
		err := k.k.Resync(t.Context())
		require.Error(t, err)
		var object *routes.ObjectError
		require.NotErrorAs(t, err, &object, "an error without an object")
		k.mustApply()
		require.Len(t, k.ours("main"), i+1)
		require.Contains(t, k.ours("main"), dst+" dev a scope link")
	}
	breaks := k.k.BreakChanges
	breaks()
	_, err := k.k.Plan(t.Context())
	require.Error(t, err)
	plan, err := k.k.Plan(t.Context())
	require.NoError(t, err)
	require.Empty(t, plan)
}

// Watch repairs while the callback blocks.
func TestKeeperWatchRepairsDuringCallback(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a", "b")
	k.k.Set(routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"},
		routes.Route{Dst: prefix("10.2.0.0/24"), Interface: "b"})
	k.mustApply()
	monitor := k.listen(rtnl.GroupRoutes)
	ctx, cancel := context.WithCancel(t.Context())
	busy, free, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	calls := make(chan string, 10)
	go func() {
		once := sync.OnceFunc(func() { close(busy); <-free })
		ended <- k.k.Watch(ctx, func(repaired []routes.Object, faultsChanged bool) {
			for _, o := range repaired {
				calls <- "repaired " + o.String()
			}
			if faultsChanged {
				calls <- "faults changed"
			}
			once()
		})
	}()
	k.ip("link set dev b down")
	<-busy
	k.ip("route del 10.1.0.0/24")
	k.await(monitor, "repaired", func() bool { return slices.Contains(k.ours("main"), "10.1.0.0/24 dev a scope link") })
	k.ip("link set dev b up")
	k.await(monitor, "back", func() bool { return slices.Contains(k.ours("main"), "10.2.0.0/24 dev b scope link") })
	require.Equal(t, "faults changed", <-calls)
	require.Empty(t, calls, "calls do not overlap")
	close(free)
	require.ElementsMatch(t, []string{"repaired 10.1.0.0/24 dev a table 254", "faults changed"},
		[]string{<-calls, <-calls})
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// The MTU of the loopback is not used: if the loopback has the node's address, the device gets the
// default MTU.
func TestVXLANOfAnAddressOfTheLoopback(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{})
	k.ip("addr add 192.0.2.1/32 dev lo")
	k.k.Set(routes.VXLAN{Name: "v", VNI: 7, Port: 4789, Local: addr("192.0.2.1"), MAC: routes.MAC{2, 0, 0, 0, 0, 1}})
	k.mustApply()
	require.Contains(t, k.ip("link show v"), " mtu 1450 ")
}
