// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// guest returns a workload that requests its gateway's MAC address, as a container does.
func (n *node) guest(iface string, addresses ...string) *netns.Workload {
	n.Helper()
	w := &netns.Workload{NS: nstest.New(n.T)}
	var err error
	w.Host, w.Link, err = netns.Veth(netns.End{NS: n.ns, Name: iface}, netns.End{NS: w.NS, Name: "eth0"})
	require.NoError(n, err)
	for _, s := range addresses {
		a := netip.MustParseAddr(s)
		w.Addresses = append(w.Addresses, a)
		require.NoError(n, w.NS.AddAddr("eth0", netip.PrefixFrom(a, a.BitLen())))
	}
	inside := &node{T: n.T, ns: w.NS}
	inside.ip("route add 169.254.1.1 dev eth0")
	inside.ip("route add default via 169.254.1.1")
	inside.ip("-6 route add default via fe80::1 dev eth0")
	require.NoError(n, w.NS.SetSysctl("net/ipv4/ping_group_range", "0 0"))
	return w
}

// The node answers for the workloads' default gateway, which is not its own address, although it
// has no other route. It answers again after the interface was down.
func TestGateways(t *testing.T) {
	n := newNode(t, routes.Config{
		ForwardAllIPv6: true,
		Gateways:       []netip.Addr{netip.MustParseAddr("169.254.1.1"), netip.MustParseAddr("fe80::1")},
	})
	a, b := n.guest("cali1", "10.0.0.1", "2001:db8::1"), n.guest("cali2", "10.0.0.2", "2001:db8::2")
	n.must(event("a", a), event("b", b), inSync)
	for i := range a.Addresses {
		require.NoError(t, ping(a.NS, b.Addresses[i], 100))
		require.NoError(t, ping(b.NS, a.Addresses[i], 100))
	}
	inside := &node{T: t, ns: a.NS}
	require.Contains(t, inside.ip("neigh show 169.254.1.1"), a.Host.MAC.String())
	require.Contains(t, inside.ip("-6 neigh show fe80::1"), a.Host.MAC.String())

	require.NoError(t, n.ns.Down("cali1"))
	require.NoError(t, n.ns.Up("cali1"))
	require.NotContains(t, n.ip("neigh show proxy"), "cali1", "the kernel deletes the entries")
	n.must()
	require.Contains(t, n.ip("neigh show proxy"), "169.254.1.1 dev cali1")
	require.Contains(t, n.ip("-6 neigh show proxy"), "fe80::1 dev cali1")

	// The entries and routes of a gateway are removed with the last endpoint of the interface or
	// node. A foreign route to the gateway is not a fault.
	n.must(gone("a"))
	require.NotContains(t, n.ip("neigh show proxy"), "cali1")
	require.Contains(t, n.ip("neigh show proxy"), "169.254.1.1 dev cali2")
	n.ip("route add unreachable 169.254.1.1")
	require.NoError(t, n.dp.Resync(t.Context()))
	n.must(gone("b"))
	require.Empty(t, n.ip("neigh show proxy"))
	require.Empty(t, n.ip("-6 neigh show proxy"))
	require.Empty(t, n.ip("route show proto 219"))
}
