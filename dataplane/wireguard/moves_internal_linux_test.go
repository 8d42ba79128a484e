// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/dataplane/routes"
)

// addUplink adds an interface with the address of the node.
func (a *testDataplane) addUplink() {
	for _, command := range []string{
		"link set lo up", "link add eth0 type veth peer name peer0", "link set peer0 up", "link set eth0 up",
		"addr add 192.0.2.1/24 dev eth0",
	} {
		a.ip(command)
	}
}

// routeTo returns the kernel's route to an address, or its error.
func (a *testDataplane) routeTo(address string) string {
	var out []byte
	require.NoError(a, a.ns.Do(func() error {
		out, _ = exec.Command("ip", "route", "get", address).CombinedOutput() // the output has the error, too
		return nil
	}))
	return string(out)
}

// restart replaces the Dataplane, like a new process.
func (a *testDataplane) restart() {
	require.NoError(a, a.Close())
	d, err := New(Config{Node: "a", NetNS: a.ns.FD(), Devices: []Device{{KeyFile: a.key}}})
	require.NoError(a, err)
	a.Cleanup(func() { require.NoError(a, d.Close()) })
	a.Dataplane, d.devices.kernel = d, a.kernel
}

// An address that was encrypted moves to this node, or to a node without keys, with or without a
// new process. Until Finish, packets to it do not use the unencrypted route that package routes
// still has (S173). If it moves to a node without a resource, packets to it are dropped, also after
// Finish.
func TestAddressMoves(t *testing.T) {
	const address, unencrypted = "10.0.2.12", "dev eth0"
	prefix := address + "/32"
	for name, moved := range map[string]*dataplane.RouteUpdate{
		"here":                    routeUpdate(prefix, "a", dataplane.RouteLocalWorkload),
		"to an unknown node":      routeUpdate(prefix, "x", dataplane.RouteRemoteWorkload),
		"to a node without a key": routeUpdate(prefix, "d", dataplane.RouteRemoteWorkload),
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				a := newTestDataplane(t)
				a.addUplink()
				routing, err := routes.New(routes.Config{NetNS: a.ns.FD()})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, routing.Close()) })
				borrowed := routeUpdate(prefix, "b", dataplane.RouteRemoteWorkload)
				borrowed.Route.Pool, borrowed.Route.NodeAddress = dataplane.PoolDirect, netip.MustParseAddr("192.0.2.2")
				events := append(network(), nodeUpdate("d", "192.0.2.2"), borrowed)
				_ = a.Apply(t.Context(), dataplane.Batch{Events: events})
				_ = routing.Apply(t.Context(), dataplane.Batch{Events: events})
				require.Contains(t, a.ip("route show table main"), address+" via 192.0.2.2")
				require.NotContains(t, a.routeTo(address), unencrypted)
				if restarted {
					a.restart()
					_ = a.applyVisible(append(network(), nodeUpdate("d", "192.0.2.2"), moved)...)
				} else {
					_ = a.applyVisible(moved)
				}
				require.NotContains(t, a.routeTo(address), unencrypted)
				_ = a.applyVisible() // as after an error
				require.NotContains(t, a.routeTo(address), unencrypted)
				_ = routing.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{&dataplane.RouteRemove{
					Dst: netip.MustParsePrefix(prefix),
				}}})
				require.NoError(t, a.Finish(t.Context()))
				unknown := moved.Route.Node == "x" // it may have keys
				table := a.ip("route show table 22361")
				require.Equal(t, !unknown, strings.Contains(table, "throw "+address), table)
				require.Equal(t, unknown, strings.Contains(table, "blackhole "+address), table)
			})
		}
	}
}

// The same holds for an address without its own route, which was encrypted with the block around
// it. Resync does not finish: later dataplanes may not have the batch yet.
func TestAddressMovesOutOfBlock(t *testing.T) {
	a := newTestDataplane(t)
	a.addUplink()
	routing, err := routes.New(routes.Config{NetNS: a.ns.FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, routing.Close()) })
	block := routeUpdate("10.0.2.0/26", "b", dataplane.RouteRemoteWorkload)
	block.Route.Pool, block.Route.NodeAddress = dataplane.PoolDirect, netip.MustParseAddr("192.0.2.2")
	events := append(network(), nodeUpdate("d", "192.0.2.4"), block)
	_ = a.Apply(t.Context(), dataplane.Batch{Events: events})
	_ = routing.Apply(t.Context(), dataplane.Batch{Events: events})
	require.Contains(t, a.ip("route show table main"), "10.0.2.0/26 via 192.0.2.2")
	_ = a.applyVisible(routeUpdate("10.0.2.12/32", "d", dataplane.RouteRemoteWorkload))
	require.NotContains(t, a.routeTo("10.0.2.12"), "dev eth0")
	_ = a.Resync(t.Context())
	require.NotContains(t, a.routeTo("10.0.2.12"), "dev eth0")
	require.NoError(t, a.Finish(t.Context()))
	require.Contains(t, a.ip("route show table 22361"), "throw 10.0.2.12")
}

// Packets to a workload on a bridge, which has no separate route, are not dropped (S171).
func TestWorkloadOnBridge(t *testing.T) {
	a := newTestDataplane(t)
	a.addUplink()
	a.ip("link add br0 type bridge")
	a.ip("addr add 10.9.0.1/24 dev br0")
	a.ip("link set br0 up")
	_ = a.Apply(t.Context(), dataplane.Batch{Events: append(network(),
		routeUpdate("10.9.0.5/32", "a", dataplane.RouteLocalWorkload),
		routeUpdate("192.0.2.9/32", "a", dataplane.RouteLocalWorkload),
	)})
	require.Contains(t, a.routeTo("10.9.0.5"), "dev br0")
	require.Contains(t, a.ownBlackholes(), "192.0.2.9", "packets of the uplink's subnet leave the node")

	a.ip("link set br0 down")
	_ = a.Apply(t.Context(), dataplane.Batch{})
	require.Contains(t, a.ownBlackholes(), "10.9.0.5", "there is no route to the bridge's subnet")
	a.ip("link set br0 up")
	_ = a.Apply(t.Context(), dataplane.Batch{})
	require.NotContains(t, a.ownBlackholes(), "10.9.0.5")

	a.ip("link add p0 type veth peer name p1") // a port without carrier
	a.ip("link set p0 master br0")
	require.NoError(t, a.ns.SetSysctl("net/ipv4/conf/br0/ignore_routes_with_linkdown", "1"))
	_ = a.Apply(t.Context(), dataplane.Batch{})
	require.Contains(t, a.ownBlackholes(), "10.9.0.5", "the kernel ignores the route to the bridge's subnet")
	a.ip("link set p1 up")
	a.ip("link set p0 up")
	require.Eventually(t, func() bool {
		_ = a.Apply(t.Context(), dataplane.Batch{})
		return !slices.Contains(a.ownBlackholes(), "10.9.0.5")
	}, 10*time.Second, 10*time.Millisecond)

	a.ip("addr add 192.0.2.1/24 dev br0") // now the bridge is the uplink
	_ = a.Apply(t.Context(), dataplane.Batch{})
	require.Contains(t, a.ownBlackholes(), "10.9.0.5")
}

// Watch reports that a bridge gets or loses its address, or that the address of the node moves to
// another interface.
func TestWatchInterfaces(t *testing.T) {
	a := newTestDataplane(t)
	a.addUplink()
	a.ip("link add br0 type bridge")
	a.ip("link set br0 up")
	_ = a.Apply(t.Context(), dataplane.Batch{Events: append(network(),
		routeUpdate("10.9.0.5/32", "a", dataplane.RouteLocalWorkload),
	)})
	ctx, cancel := context.WithCancel(t.Context())
	reported, ended := make(chan struct{}, 100), make(chan error)
	go func() { ended <- a.Watch(ctx, func(dataplane.Drift) { reported <- struct{}{} }) }()
	for _, step := range []struct {
		command string
		want    bool // whether packets to the workload are dropped
	}{
		{"addr add 10.9.0.1/24 dev br0", false},
		{"addr del 10.9.0.1/24 dev br0", true},
		{"addr add 10.9.0.1/24 dev br0", false},
		{"addr add 192.0.2.1/24 dev br0", true},
		{"addr del 192.0.2.1/24 dev br0", false},
		{"link set br0 down", true},
	} {
		a.ip(step.command)
		for slices.Contains(a.ownBlackholes(), "10.9.0.5") != step.want {
			select {
			case <-reported: // the report may have another reason
				_ = a.applyVisible(&dataplane.NodeRemove{Name: "none"})
				_ = a.Finish(t.Context())
			case <-time.After(10 * time.Second):
				t.Fatalf("not reported: %s", step.command)
			}
		}
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// Watch does not report other changes of interfaces.
func TestOtherInterfacesAreIgnored(t *testing.T) {
	a := newTestDataplane(t)
	a.addUplink()
	differ := func() bool {
		s, err := interfaces.Read(interfaces.Config{NetNS: a.ns.FD()})
		require.NoError(t, err)
		return a.interfaces.differ(s)
	}
	require.False(t, differ(), "nothing is programmed yet")
	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	for _, command := range []string{
		"link add other type veth peer name peer1", "link set other up", "addr add 10.5.0.1/24 dev other",
		"link add br0 type bridge", "addr add 10.9.0.1/24 dev br0",
	} {
		a.ip(command)
		require.False(t, differ(), command)
	}
	a.ip("link set br0 up")
	require.True(t, differ())
	_, err := a.Plan(t.Context(), dataplane.Batch{})
	require.NoError(t, err)
	require.True(t, differ(), "a plan programs nothing")
}

// A local workload inside another node's block, which is inside an own block, has its own blackhole
// route.
func TestBlockInsideOwnBlock(t *testing.T) {
	a := newTestDataplane(t)
	_ = a.Apply(t.Context(), dataplane.Batch{Events: append(network(),
		routeUpdate("10.0.0.0/20", "a", dataplane.RouteBlackhole),
		routeUpdate("10.0.4.8/32", "a", dataplane.RouteLocalWorkload),
	)})
	require.Contains(t, a.ownBlackholes(), "10.0.2.8")
	require.NotContains(t, a.ownBlackholes(), "10.0.4.8")
}

// Without the blackhole routes of the own blocks, the devices have no keys, so no key is announced.
func TestNoAnnouncementWithoutOwnBlackholes(t *testing.T) {
	a := newTestDataplane(t)
	const foreign = "unreachable 10.0.1.0/26 metric 2147483648 proto 99"
	a.ip("route add " + foreign)
	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	_ = a.Apply(t.Context(), dataplane.Batch{})
	require.Equal(t, wgtypes.Key{}, a.kernel.devices["wg.way"].PrivateKey)
	require.Zero(t, a.announcements)
	a.ip("route del " + foreign)
	_ = a.Apply(t.Context(), dataplane.Batch{})
	require.Equal(t, 1, a.announcements)
}

// If another process replaces the blackhole route of an own block, no peer is added until it exists
// again. A block that is no longer this node's delays nothing.
func TestOwnBlackholeIsReplaced(t *testing.T) {
	a := newTestDataplane(t)
	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	require.Len(t, a.kernel.devices["wg.way"].Peers, 1)
	block := routeUpdate("10.0.5.0/26", "a", dataplane.RouteBlackhole)
	_ = a.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{block}})
	const foreign = "unreachable 10.0.5.0/26 metric 2147483648 proto 99"
	a.ip("route replace " + foreign)
	_, general := dataplane.ApplyErrors(a.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{
		nodeUpdate("d", "192.0.2.4", testKey(4)),
	}}))
	require.True(t, general)
	require.Len(t, a.kernel.devices["wg.way"].Peers, 1)
	a.ip("route del " + foreign)
	_ = a.Apply(t.Context(), dataplane.Batch{})
	require.Len(t, a.kernel.devices["wg.way"].Peers, 2)

	_ = a.applyVisible(&dataplane.RouteRemove{Dst: block.Route.Dst})
	a.ip("route replace " + foreign)
	_ = a.applyVisible(nodeUpdate("e", "192.0.2.5", testKey(5))) // detects the replacement
	require.NoError(t, a.Finish(t.Context()))
	_, general = dataplane.ApplyErrors(a.Apply(t.Context(), dataplane.Batch{}))
	require.False(t, general)
	require.Len(t, a.kernel.devices["wg.way"].Peers, 3)
}

// Unencrypted packets to an address that is no longer this node's are dropped until Finish: later
// dataplanes still have a route to its workload.
func TestFilterShrinksWithFinish(t *testing.T) {
	a := newTestDataplane(t)
	a.cfg.RequireEncryption = true
	const address, block = "10.77.0.1", "10.77.0.0/26"
	_ = a.Apply(t.Context(), dataplane.Batch{Events: append(network(),
		routeUpdate(address+"/32", "a", dataplane.RouteLocalWorkload),
	)})
	own := a.ownSet
	require.Contains(t, own(), address)
	removed := &dataplane.RouteRemove{Dst: netip.MustParsePrefix(address + "/32")}
	_ = a.applyVisible(removed)
	require.Contains(t, own(), address)
	_ = a.applyVisible(routeUpdate(block, "a", dataplane.RouteBlackhole)) // the block around the address
	require.Contains(t, own(), block)
	_ = a.applyVisible(&dataplane.RouteRemove{Dst: netip.MustParsePrefix(block)})
	require.Contains(t, own(), block)
	require.NoError(t, a.Finish(t.Context()))
	require.NotContains(t, own(), "10.77")
	require.NoError(t, a.Teardown(t.Context()))
}

// The same holds for addresses that the node lost while no process ran, whatever their form in the
// set. Teardown removes them.
func TestFilterShrinksWithFinishAfterRestart(t *testing.T) {
	a := newTestDataplane(t)
	a.cfg.RequireEncryption = true
	const address, block = "10.77.0.1", "10.78.0.64/26"
	_ = a.Apply(t.Context(), dataplane.Batch{Events: append(network(),
		routeUpdate(address+"/32", "a", dataplane.RouteLocalWorkload),
		routeUpdate(block, "a", dataplane.RouteBlackhole),
		routeUpdate("10.78.0.128/25", "a", dataplane.RouteBlackhole), // an address next to the block
		routeUpdate("fd00:77::/64", "a", dataplane.RouteBlackhole),
	)})
	before := a.ownSet()
	require.Contains(t, before, block)
	a.restart()
	a.cfg.RequireEncryption = true
	_ = a.applyVisible(network()...)
	require.Equal(t, before, a.ownSet())
	require.Contains(t, a.nft("list", "set", "inet", a.cfg.FilterTable, "own6"), "fd00:77::/64")
	require.NoError(t, a.Finish(t.Context()))
	require.NotContains(t, a.ownSet(), "10.7")
	require.Contains(t, a.ownSet(), "10.0.1.0/26")

	require.NoError(t, a.Teardown(t.Context()))
	_ = a.applyVisible(append(network(), routeUpdate(block, "a", dataplane.RouteBlackhole))...)
	require.Contains(t, a.ownSet(), block)
	require.NoError(t, a.Teardown(t.Context()))
	_ = a.applyVisible(network()...)
	require.NotContains(t, a.ownSet(), block)
}

// nft returns the output of nft in the namespace.
func (a *testDataplane) nft(arguments ...string) string {
	var out []byte
	require.NoError(a, a.ns.Do(func() (err error) {
		out, err = exec.Command("nft", arguments...).CombinedOutput()
		return err
	}), "%s", out)
	return string(out)
}

// ownSet returns the set of the own encrypted IPv4 prefixes.
func (a *testDataplane) ownSet() string {
	return a.nft("list", "set", "inet", a.cfg.FilterTable, "own4")
}
