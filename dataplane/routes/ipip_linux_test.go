// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/policy"
)

// ipipTunnel is tunnel for IP in IP.
func ipipTunnel(node, address, parent string, local bool) *dataplane.TunnelUpdate {
	t := tunnel(node, address, "", parent, local)
	t.Tunnel.Encapsulation = dataplane.EncapIPIP
	return t
}

// ipipEvents returns a node with tunnels of both encapsulations, and a route through each.
func ipipEvents() []dataplane.Event {
	return []dataplane.Event{
		ipipTunnel("here", "10.66.1.0", "192.0.2.1", true), ipipTunnel("there", "10.66.2.0", "192.0.3.2", false),
		tunnel("here", "10.65.1.0", "66:00:00:00:00:01", "192.0.2.1", true),
		tunnel("there", "10.65.2.0", "66:00:00:00:00:02", "192.0.3.2", false),
		remote("10.65.2.0/26", "there", "192.0.3.2", dataplane.PoolVXLAN, false),
		remote("10.66.2.0/26", "there", "192.0.3.2", dataplane.PoolIPIP, false),
		remote("10.66.3.0/26", "near", "192.0.2.3", dataplane.PoolIPIPCrossSubnet, true),
		update("a", "cali1", mac, "10.66.1.1"), inSync,
	}
}

// The plan needs no module: a kernel without it refuses only the device.
func TestIPIPPlan(t *testing.T) {
	n := newNetworkNode(t, routes.Config{})
	plan, err := n.dp.Plan(t.Context(), dataplane.Batch{Events: ipipEvents()})
	require.NoError(t, err)
	require.Contains(t, plan, `ip link add ipip.way mtu 1480 type ipip mode ipip local 192.0.2.1 ttl inherit nopmtudisc
ip link set dev ipip.way alias 'wayleave proto 219'
ip addr add 10.66.1.0/32 dev ipip.way
ip link set dev ipip.way up
ip link add vxlan.way `)
	require.Contains(t, plan, "sysctl -w net/ipv4/conf/ipip.way/forwarding=1\n")
	require.Contains(t, plan, "ip route add 10.65.2.0/26 via 10.65.2.0 dev vxlan.way onlink proto 219 table 254\n"+
		"ip route add 10.66.1.1/32 dev cali1 scope link proto 219 table 254\n"+
		"ip route add 10.66.2.0/26 via 192.0.3.2 dev ipip.way onlink proto 219 table 254\n"+
		"ip route add 10.66.3.0/26 via 192.0.2.3 dev eth0 proto 219 table 254\n")

	n = newNetworkNode(t, routes.Config{IPIP: routes.IPIPConfig{Device: "mesh", MTU: 1400}})
	plan, err = n.dp.Plan(t.Context(), dataplane.Batch{Events: ipipEvents()})
	require.NoError(t, err)
	require.Contains(t, plan, "ip link add mesh mtu 1400 type ipip mode ipip local 192.0.2.1 ttl inherit nopmtudisc\n")
	require.Contains(t, plan, "ip route add 10.66.2.0/26 via 192.0.3.2 dev mesh onlink proto 219 table 254\n")
	require.NotContains(t, plan, "ipip.way")

	// If the node has no IP-in-IP tunnel, it uses none, and that is not a fault. Its VXLAN tunnel
	// is not used instead.
	n.must(ipipEvents()[1:]...)
	require.Equal(t, []string{
		"10.65.2.0/26 via 10.65.2.0 dev vxlan.way onlink", "10.66.1.1 dev cali1 scope link",
		"10.66.3.0/26 via 192.0.2.3 dev eth0",
	}, n.ours("main"))
}

// A tunnel whose other end is unknown is a fault of its node, and so is one with an IPv6 address.
func TestIPIPFaults(t *testing.T) {
	n := newNetworkNode(t, routes.Config{})
	odd := ipipTunnel("here", "10.66.1.0", "2001:db8::1", true)
	err := n.apply(odd, remote("10.66.9.0/26", "unknown", "192.0.3.9", dataplane.PoolIPIP, false), inSync)
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general)
	require.Len(t, objects, 2)
	require.ErrorIs(t, objects[nodeKey("here")], routes.ErrObject)
	require.ErrorIs(t, objects[nodeKey("unknown")], routes.ErrTunnel)
}

func nodeKey(name string) policy.Key { return policy.Key{Kind: policy.KindNode, Name: name} }

// A kernel without the module ipip refuses only the device. The faults of the nodes that need it
// have this reason, and everything else is programmed.
func TestKernelWithoutIPIP(t *testing.T) {
	n := newNetworkNode(t, routes.Config{})
	err := n.apply(ipipEvents()...)
	want := []string{
		"10.65.2.0/26 via 10.65.2.0 dev vxlan.way onlink", "10.66.1.1 dev cali1 scope link",
		"10.66.2.0/26 via 192.0.3.2 dev ipip.way onlink", "10.66.3.0/26 via 192.0.2.3 dev eth0",
	}
	if kernelHasIPIP(t) {
		require.NoError(t, err)
		require.Equal(t, want, n.ours("main"))
		return // TestIPIPRecoversWhenModuleIsLoaded removes the module
	}
	n.wantNoIPIP(err)
	require.Equal(t, []string{want[0], want[1], want[3]}, n.ours("main"))
	n.must(&dataplane.TunnelRemove{Key: ipipTunnel("here", "10.66.1.0", "192.0.2.1", true).Tunnel.Key()})
}

// wantNoIPIP checks the faults of ipipEvents on a kernel without the module.
func (n *keeping) wantNoIPIP(err error) {
	n.Helper()
	objects, general := dataplane.ApplyErrors(err)
	require.False(n, general, "%v", err)
	require.Len(n, objects, 2, "%v", err)
	for _, name := range []string{"here", "there"} {
		fault := objects[nodeKey(name)]
		var missing *dataplane.FeatureError
		require.ErrorAs(n, fault, &missing)
		require.Equal(n, "ipip", missing.Module)
		require.ErrorContains(n, fault,
			"IP in IP: the kernel has no devices of kind ipip (since Linux 3.8, module ipip)")
		require.False(n, fault.Down)
	}
	require.ErrorIs(n, objects[nodeKey("there")], routes.ErrNoInterface)
	require.NotContains(n, n.ip("link"), "ipip.way")
}
