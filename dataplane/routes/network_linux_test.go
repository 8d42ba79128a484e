// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/policy"
)

// remote returns a route to a block or tunnel address of another node.
func remote(dst, node, address string, pool dataplane.PoolType, sameSubnet bool) *dataplane.RouteUpdate {
	r := &dataplane.Route{
		Dst: prefix(dst), Type: dataplane.RouteRemoteWorkload, Node: node, Pool: pool, SameSubnet: sameSubnet,
	}
	if address != "" {
		r.NodeAddress = addr(address)
	}
	return &dataplane.RouteUpdate{Route: r}
}

func tunnel(node, address, mac, parent string, local bool) *dataplane.TunnelUpdate {
	return &dataplane.TunnelUpdate{Tunnel: &dataplane.Tunnel{
		Node: node, IPVersion: 4, Address: addr(address), MAC: mac, ParentAddress: addr(parent), Local: local,
	}}
}

func blackhole(dst string) *dataplane.RouteUpdate {
	return &dataplane.RouteUpdate{
		Route: &dataplane.Route{Dst: prefix(dst), Type: dataplane.RouteBlackhole, Node: "here"},
	}
}

// newNetworkNode is a node with an address in the underlying network.
func newNetworkNode(t *testing.T, cfg routes.Config) *keeping {
	n := &keeping{node: newNode(t, cfg, "eth0", "cali1", "cali2")}
	n.ip("addr add 192.0.2.1/24 dev eth0")
	return n
}

// Each kind of route of the network.
func TestNetworkRoutes(t *testing.T) {
	events := []dataplane.Event{
		tunnel("here", "10.65.1.0", "66:00:00:00:00:01", "192.0.2.1", true),
		tunnel("there", "10.65.2.0", "66:00:00:00:00:02", "192.0.3.2", false),
		blackhole("10.65.1.0/26"),
		remote("10.65.2.0/26", "there", "192.0.3.2", dataplane.PoolVXLANCrossSubnet, false),
		remote("10.65.3.0/26", "near", "192.0.2.3", dataplane.PoolVXLANCrossSubnet, true),
		remote("10.65.4.0/26", "near", "192.0.2.3", dataplane.PoolDirect, false),
		remote("10.65.5.0/26", "near", "192.0.2.3", dataplane.PoolIPIPCrossSubnet, true),
		remote("10.65.6.0/26", "near", "192.0.2.3", dataplane.PoolNone, false),
		&dataplane.RouteUpdate{
			Route: &dataplane.Route{Dst: prefix("10.65.0.0/16"), Type: dataplane.RoutePool, Pool: dataplane.PoolVXLAN},
		},
		&dataplane.RouteUpdate{
			Route: &dataplane.Route{Dst: prefix("10.65.1.1/32"), Type: dataplane.RouteLocalWorkload, Node: "here"},
		},
		&dataplane.RouteUpdate{
			Route: &dataplane.Route{Dst: prefix("192.0.2.3/32"), Type: dataplane.RouteRemoteHost, Node: "near"},
		},
		inSync,
	}
	for name, row := range map[string]struct {
		cfg  routes.Config
		want []string
	}{
		"default": {routes.Config{}, []string{
			"blackhole 10.65.1.0/26", "10.65.2.0/26 via 10.65.2.0 dev vxlan.way onlink",
			"10.65.3.0/26 via 192.0.2.3 dev eth0", "10.65.4.0/26 via 192.0.2.3 dev eth0",
			"10.65.5.0/26 via 192.0.2.3 dev eth0",
		}},
		"without direct routes": {routes.Config{NoDirect: true}, []string{
			"blackhole 10.65.1.0/26", "10.65.2.0/26 via 10.65.2.0 dev vxlan.way onlink",
		}},
		"with a metric": {routes.Config{Metric: 9}, []string{
			"blackhole 10.65.1.0/26 metric 9", "10.65.2.0/26 via 10.65.2.0 dev vxlan.way metric 9 onlink",
			"10.65.3.0/26 via 192.0.2.3 dev eth0 metric 9", "10.65.4.0/26 via 192.0.2.3 dev eth0 metric 9",
			"10.65.5.0/26 via 192.0.2.3 dev eth0 metric 9",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetworkNode(t, row.cfg)
			n.must(events...)
			require.Equal(t, row.want, n.ours("main"))
			require.Contains(t, n.ip("link"), "vxlan.way")
			plan, err := n.dp.Plan(t.Context(), dataplane.Batch{})
			require.NoError(t, err)
			require.Empty(t, plan)
			n.restart()
			n.must(events...)
			stats := n.dp.Stats()
			require.Zero(t, stats.Added+stats.Replaced+stats.Deleted, "adopted")
			require.NoError(t, n.dp.Teardown(t.Context()))
			require.Empty(t, n.ours("main"))
			require.NotContains(t, n.ip("link"), "vxlan.way")
		})
	}
}

// S160: the route to a local workload takes precedence over all other routes to its address,
// whatever its block is. This is so only while the endpoint exists.
func TestLocalWorkloadWins(t *testing.T) {
	n := newNetworkNode(t, routes.Config{})
	n.must(remote("10.65.4.0/26", "near", "192.0.2.3", dataplane.PoolDirect, false),
		remote("10.65.4.1/32", "near", "192.0.2.3", dataplane.PoolDirect, false), blackhole("10.65.4.2/32"), inSync)
	require.Equal(t, []string{
		"10.65.4.0/26 via 192.0.2.3 dev eth0", "10.65.4.1 via 192.0.2.3 dev eth0", "blackhole 10.65.4.2",
	}, n.ours("main"))
	n.must(update("a", "cali1", mac, "10.65.4.1", "10.65.4.2"))
	require.Equal(t, []string{
		"10.65.4.0/26 via 192.0.2.3 dev eth0", "10.65.4.1 dev cali1 scope link", "10.65.4.2 dev cali1 scope link",
	}, n.ours("main"))
	n.must(gone("a"))
	require.Contains(t, n.ours("main"), "10.65.4.1 via 192.0.2.3 dev eth0")
	require.Contains(t, n.ours("main"), "blackhole 10.65.4.2")
}

// Within a batch, two nodes may temporarily have one tunnel address. Afterwards, each has its own,
// whatever the order.
func TestTunnelsSwapAddresses(t *testing.T) {
	n := newNetworkNode(t, routes.Config{})
	n.must(tunnel("here", "10.65.1.0", "66:00:00:00:00:01", "192.0.2.1", true),
		tunnel("a", "10.65.2.0", "66:00:00:00:00:02", "192.0.3.2", false), tunnel("b", "10.65.3.0", "66:00:00:00:00:03",
			"192.0.3.3", false), remote("10.65.2.0/26", "a", "192.0.3.2", dataplane.PoolVXLAN, false), inSync)
	n.must(tunnel("a", "10.65.3.0", "66:00:00:00:00:03", "192.0.3.2", false),
		tunnel("b", "10.65.2.0", "66:00:00:00:00:02", "192.0.3.3", false))
	require.Equal(t, []string{"10.65.2.0 vxlan.way 66:00:00:00:00:02", "10.65.3.0 vxlan.way 66:00:00:00:00:03"},
		n.neighbours())
	fdb := n.command("bridge fdb show")
	require.Contains(t, fdb, "66:00:00:00:00:03 dev vxlan.way dst 192.0.3.2 self permanent")
	require.Contains(t, fdb, "66:00:00:00:00:02 dev vxlan.way dst 192.0.3.3 self permanent")
	require.Equal(t, []string{"10.65.2.0/26 via 10.65.3.0 dev vxlan.way onlink"}, n.ours("main"))
	// Without its own tunnel address, the node has no device, and no route through it.
	n.must(&dataplane.TunnelRemove{Key: dataplane.TunnelKey{Node: "here", IPVersion: 4}})
	require.Empty(t, n.ours("main"))
	require.Empty(t, n.neighbours())
	require.NotContains(t, n.ip("link"), "vxlan.way")
}

// A fault of a route to a node is reported with the key of the node.
func TestFaultsOfNodes(t *testing.T) {
	n := newNetworkNode(t, routes.Config{})
	n.ip("route add 10.65.3.0/26 dev cali2 proto static")
	err := n.apply(update("a", "cali1", mac, "10.65.1.1"),
		remote("10.65.3.0/26", "near", "192.0.2.3", dataplane.PoolDirect, false), remote("10.65.4.0/26", "far",
			"192.0.9.9", dataplane.PoolDirect, false),
		tunnel("here", "10.65.1.0", "66:00:00:00:00:01", "192.0.2.1", true),
		remote("10.65.5.0/26", "odd", "192.0.2.5", dataplane.PoolVXLAN, false),
		remote("10.65.6.0/26", "fine", "192.0.2.6", dataplane.PoolDirect, false), inSync)
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general)
	require.Len(t, objects, 3)
	for name, cause := range map[string]error{
		"near": routes.ErrForeign, "far": routes.ErrNoInterface, "odd": routes.ErrTunnel,
	} {
		require.ErrorIs(t, objects[policy.Key{Kind: policy.KindNode, Name: name}], cause, name)
	}
	require.Equal(t, []string{"10.65.1.1 dev cali1 scope link", "10.65.6.0/26 via 192.0.2.6 dev eth0"}, n.ours("main"))
	n.ip("route del 10.65.3.0/26")
	n.ip("addr add 192.0.9.1/24 dev eth0")
	n.must(&dataplane.RouteRemove{Dst: prefix("10.65.5.0/26")})
	require.Len(t, n.ours("main"), 4)
}

// A device with another name replaces the device of an earlier process, although the kernel allows
// only one with these parameters.
func TestDeviceGetsAnotherName(t *testing.T) {
	n := newNetworkNode(t, routes.Config{VXLAN: routes.VXLANConfig{Device4: "former"}})
	events := []dataplane.Event{
		tunnel("here", "10.65.1.0", "66:00:00:00:00:01", "192.0.2.1", true),
		tunnel("there", "10.65.2.0", "66:00:00:00:00:02", "192.0.3.2", false),
		remote("10.65.2.0/26", "there", "192.0.3.2", dataplane.PoolVXLAN, false), inSync,
	}
	n.must(events...)
	n.cfg.VXLAN.Device4 = ""
	n.restart()
	n.must(events...)
	require.Equal(t, []string{"10.65.2.0/26 via 10.65.2.0 dev vxlan.way onlink"}, n.ours("main"))
	require.NotContains(t, n.ip("link"), "former")
}

// A foreign device with the name of ours gets no objects of ours, and keeps its own.
func TestForeignDevice(t *testing.T) {
	n := newNetworkNode(t, routes.Config{})
	n.ip("link add vxlan.way type vxlan id 77 dstport 4790 local 192.0.2.1 nolearning")
	n.ip("link set dev vxlan.way alias theirs up")
	n.command("bridge fdb add 02:00:00:00:00:77 dev vxlan.way dst 192.0.2.77")
	n.unset("net/ipv4/conf/vxlan.way/forwarding")
	before := n.command("bridge fdb show dev vxlan.way")
	err := n.apply(update("a", "cali1", mac, "10.65.1.1"),
		tunnel("here", "10.65.1.0", "66:00:00:00:00:01", "192.0.2.1", true), tunnel("there", "10.65.2.0",
			"66:00:00:00:00:02", "192.0.3.2", false),
		remote("10.65.2.0/26", "there", "192.0.3.2", dataplane.PoolVXLAN, false), inSync)
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general)
	require.Len(t, objects, 2)
	for _, name := range []string{"here", "there"} {
		require.ErrorIs(t, objects[policy.Key{Kind: policy.KindNode, Name: name}], routes.ErrForeign)
	}
	require.Equal(t, []string{"10.65.1.1 dev cali1 scope link"}, n.ours("main"))
	require.Equal(t, []string{"10.65.1.1 cali1 " + mac}, n.neighbours())
	require.Equal(t, before, n.command("bridge fdb show dev vxlan.way"))
	n.wantSysctl("net/ipv4/conf/vxlan.way/forwarding", "0")
	n.command("bridge fdb add 02:00:00:00:00:78 dev vxlan.way dst 192.0.2.78")
	require.Error(t, n.dp.Resync(t.Context()))
	require.Contains(t, n.command("bridge fdb show dev vxlan.way"), "02:00:00:00:00:78 dst 192.0.2.78 self permanent")
	n.ip("link del dev vxlan.way")
	n.must()
	require.Contains(t, n.ours("main"), "10.65.2.0/26 via 10.65.2.0 dev vxlan.way onlink")
	require.NoError(t, n.dp.Teardown(t.Context()))
}
