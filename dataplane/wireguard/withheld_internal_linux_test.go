// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
)

// movingNode is a node on which an encrypted address of the node b has an unencrypted route, too.
type movingNode struct {
	*testDataplane
	routing *routes.Dataplane
	events  []dataplane.Event
	moved   *dataplane.RouteUpdate // an unencrypted route to the node a
}

const movingAddress = "10.0.2.12"

func newMovingNode(t *testing.T) *movingNode {
	a := newTestDataplane(t)
	a.addUplink()
	routing, err := routes.New(routes.Config{NetNS: a.ns.FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, routing.Close()) })
	m := &movingNode{
		testDataplane: a, routing: routing, moved: routeUpdate(movingAddress+"/32", "a", dataplane.RouteLocalWorkload),
	}
	m.events = append(network(), nodeUpdate("d", "192.0.2.4"), direct(movingAddress, "b", "192.0.2.2"))
	m.apply(m.events...)
	require.Contains(t, a.ip("route show table main"), movingAddress+" via 192.0.2.2 dev eth0")
	m.requireNoLeak(movingAddress)
	return m
}

// direct returns a route to a workload of another node, with the node's address as gateway.
func direct(address, node, via string) *dataplane.RouteUpdate {
	r := routeUpdate(address+"/32", node, dataplane.RouteRemoteWorkload)
	r.Route.Pool, r.Route.NodeAddress = dataplane.PoolDirect, netip.MustParseAddr(via)
	return r
}

// apply applies events to both dataplanes.
func (m *movingNode) apply(events ...dataplane.Event) {
	b := dataplane.Batch{Events: events}
	_ = m.Apply(m.Context(), b)
	_ = m.routing.Apply(m.Context(), b)
}

func (m *movingNode) requireNoLeak(address string) {
	m.Helper()
	require.NotContains(m, m.routeTo(address), "dev eth0")
}

// requireGeneral requires that an error has a part without an object.
func (m *movingNode) requireGeneral(want bool, err error) {
	m.Helper()
	_, general := dataplane.ApplyErrors(err)
	require.Equal(m, want, general, "%v", err)
}

// If Finish removes nothing because of a fault, Resync removes nothing after the fault either:
// later dataplanes may not have the batch yet (S173). Only the next Finish removes the objects.
func TestFinishIsSkipped(t *testing.T) {
	m := newMovingNode(t)
	const foreign = "unreachable 10.0.5.0/26 table 22361 metric 2147483648 proto 99"
	m.ip("route add " + foreign)
	m.requireGeneral(true, m.applyVisible(m.moved, routeUpdate("10.0.5.0/26", "b", dataplane.RouteRemoteWorkload)))
	require.NoError(t, m.Finish(t.Context()))
	m.requireNoLeak(movingAddress)
	m.ip("route del " + foreign)
	for range 2 {
		m.requireGeneral(false, m.Resync(t.Context()))
		m.requireNoLeak(movingAddress)
	}
	require.NoError(t, m.Finish(t.Context()))
	require.Contains(t, m.ip("route show table 22361"), "throw "+movingAddress)
	_ = m.applyVisible(&dataplane.RouteRemove{Dst: m.moved.Route.Dst})
	require.NoError(t, m.Finish(t.Context()))
	m.requireGeneral(false, m.Resync(t.Context()))
	require.Nil(t, m.Unfinished(), "nothing is left")
}

// While the table of RequireEncryption cannot be programmed, the Driver withholds routes from later
// dataplanes. So Finish ends no encryption, either.
func TestFilterFaultPostponesFinish(t *testing.T) {
	m := newMovingNode(t)
	m.cfg.RequireEncryption, m.cfg.FilterTable = true, strings.Repeat("x", 300)
	m.requireGeneral(true, m.applyVisible(m.moved))
	require.NoError(t, m.Finish(t.Context()))
	m.requireNoLeak(movingAddress)
	m.cfg.FilterTable = DefaultFilterTable
	m.requireGeneral(false, m.applyVisible())
	m.requireNoLeak(movingAddress)
	require.NoError(t, m.Finish(t.Context()))
	require.Contains(t, m.ip("route show table 22361"), "throw "+movingAddress)
	require.NoError(t, m.Teardown(t.Context()))
}

// Packets to a node at fault are dropped, even if the table has an old throw route to the address.
// The route may be of this process, while the encryption of the prefix around it ends, or of an
// earlier one.
func TestThrowRouteToNodeAtFault(t *testing.T) {
	const address = "10.0.2.8" // a workload of a in the block of b
	bad := nodeUpdate("e", "192.0.2.5", testKey(9))
	bad.Node.WireguardKeys[0].PublicKey = "bad"
	toBad := direct(address, "e", "192.0.2.5")
	for name, events := range map[string]func(*movingNode) []dataplane.Event{
		"of this process": func(*movingNode) []dataplane.Event {
			return []dataplane.Event{bad, toBad, &dataplane.RouteRemove{Dst: netip.MustParsePrefix("10.0.2.0/26")}}
		},
		"of an earlier process": func(m *movingNode) []dataplane.Event {
			m.restart()
			return append(m.events, bad, toBad)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMovingNode(t)
			require.Contains(t, m.ip("route show table 22361"), "throw "+address)
			b := dataplane.Batch{Events: events(m)}
			_ = m.ApplyVisible(t.Context(), b)
			_ = m.routing.Apply(t.Context(), b)
			m.requireNoLeak(address)
			require.NoError(t, m.Finish(t.Context()))
			m.requireNoLeak(address)
			require.Contains(t, m.ip("route show table 22361"), "blackhole "+address+" proto 236 \n")

			_ = m.applyVisible(nodeUpdate("e", "192.0.2.5", testKey(9)))
			require.NotContains(t, m.ip("route show table 22361"), "blackhole "+address+" proto 236 \n",
				"the fault has ended, and a route over the device replaces it")
			m.requireNoLeak(address)
		})
	}
}

// A device of another process with the name of ours is not configured.
func TestForeignDevice(t *testing.T) {
	a := newTestDataplane(t)
	a.ip("link add wg.way type veth peer name wgpeer")
	a.ip("link set wg.way alias other")
	foreign := a.kernel.devices["wg.way"]
	foreign.ListenPort, foreign.Peers = 4711, []wgtypes.Peer{{PublicKey: testKey(77)}}
	require.ErrorIs(t, a.Apply(t.Context(), dataplane.Batch{Events: network()}), routes.ErrForeign)
	require.Equal(t, 4711, foreign.ListenPort)
	require.Equal(t, []wgtypes.Peer{{PublicKey: testKey(77)}}, foreign.Peers)
	require.Zero(t, a.announcements)
	_, err := a.Plan(t.Context(), dataplane.Batch{})
	require.NoError(t, err)
	require.NoError(t, a.Teardown(t.Context()))
	require.Equal(t, 4711, foreign.ListenPort)

	a.ip("link del wg.way")
	a.devices.kernel = a.kernel // the Dataplane has closed the fake
	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	require.Equal(t, DefaultPort, foreign.ListenPort)
}

// portTaken refuses the port of the second device.
type portTaken struct{ *fakeKernel }

func (k portTaken) ConfigureDevice(name string, cfg wgtypes.Config) error {
	if name == DefaultSecondDevice && cfg.ListenPort != nil {
		return errors.New("address already in use")
	}
	return k.fakeKernel.ConfigureDevice(name, cfg)
}

// If one device is at fault, the other still gets new peers.
func TestOneDeviceAtFault(t *testing.T) {
	a := newTestDataplane(t)
	first := a.kernel.devices["wg.way"]
	a.kernel.devices[DefaultSecondDevice] = &wgtypes.Device{Type: wgtypes.LinuxKernel}
	d, err := New(Config{
		Node: "a", NetNS: a.ns.FD(), Devices: []Device{{KeyFile: a.key}, {KeyFile: a.key + "2"}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	d.devices.kernel = portTaken{a.kernel}
	apply := func(events ...dataplane.Event) {
		require.ErrorContains(t, d.Apply(t.Context(), dataplane.Batch{Events: events}), "address already in use")
	}
	apply(network()...)
	require.Len(t, first.Peers, 1)
	d.devices.kernel = portTaken{a.kernel}
	apply(nodeUpdate("d", "192.0.2.4", testKey(4)), routeUpdate("10.0.4.0/26", "d", dataplane.RouteRemoteWorkload))
	require.Len(t, first.Peers, 2)
}
