// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package routes_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// These tests need the kernel's modules vrf, dummy and ipip; scripts/test-kernels runs them.

// vrfTable is the table of the VRFs.
const vrfTable = 100

// isolate moves the uplink of each node into a VRF.
func (c *cluster) isolate(subnets ...int) {
	c.Helper()
	for i, n := range c.nodes {
		n.ip("link add up-vrf type vrf table %d", vrfTable)
		n.ip("link set dev up-vrf up")
		n.ip("link set dev eth0 master up-vrf")
		// The move removes the IPv6 addresses.
		six := netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::%d/64", subnets[i], i+1))
		require.NoError(c, n.ns.AddAddr("eth0", six))
		n.ip("route add default via 192.0.%d.254 table %d", subnets[i], vrfTable)
		n.ip("-6 route add default via 2001:db8:%d::fe table %d", subnets[i], vrfTable)
		require.NoError(c, n.ns.SetSysctl("net/ipv4/conf/up-vrf/forwarding", "1"))
	}
}

// Tunnels with a VRF as parent connect nodes whose uplinks belong to it.
func TestTunnelsInVRF(t *testing.T) {
	t.Run("vxlan", func(t *testing.T) {
		c := newUnderlayWith(t, routes.Config{Parent: "up-vrf"}, 2, 2, 3)
		c.isolate(2, 2, 3)
		c.start(pools(policy.EncapAlways)...)
		c.reach()
		c.tunnelled(1)
		c.tunnelled(2)
	})
	t.Run("ipip", func(t *testing.T) {
		c := newUnderlayWith(t, routes.Config{Parent: "up-vrf"}, 2, 3)
		c.isolate(2, 3)
		c.startIPIP(policy.EncapAlways)
		c.reach()
		n1 := c.nodes[0]
		require.NotEmpty(t, n1.list("local 192.0.2.1 dev up-vrf", "ip", "-d", "-o", "link"))
		before := n1.list("ipip.way", "ip", "-o", "link")
		require.NoError(t, n1.dp.Resync(t.Context()))
		require.Equal(t, before, n1.list("ipip.way", "ip", "-o", "link"), "nothing is recreated")
		n1.ip("link set dev ipip.way type ipip local 192.0.2.1 dev lo ttl inherit nopmtudisc")
		require.NotEmpty(t, n1.list("local 192.0.2.1 dev lo", "ip", "-d", "-o", "link"))
		require.NoError(t, n1.dp.Resync(t.Context()))
		require.NotEmpty(t, n1.list("local 192.0.2.1 dev up-vrf", "ip", "-d", "-o", "link"))
		c.reach()
	})
}

// A host behind a VRF reaches pods if their routes are in the table of the VRF, too. In nftables
// rules, the input interface is the VRF, and the output interface is the port.
func TestTablesOfVRF(t *testing.T) {
	for _, tables := range [][]uint32{nil, {routes.DefaultTable, vrfTable}} {
		c := newUnderlayWith(t, routes.Config{Tables: tables, Parent: "up-vrf"}, 2, 3)
		c.isolate(2, 3)
		c.start(pools(policy.EncapAlways)...)
		n1 := c.nodes[0]
		n1.ip("route add 192.0.2.0/24 dev eth0") // the route back, which the administrator adds
		c.ip(c.underlay, "route add 10.65.1.0/26 via 192.0.2.1")
		require.NoError(t, c.underlay.SetSysctl("net/ipv4/ping_group_range", "0 0"))
		nstest.NFT(t, n1.ns, "table ip seen { chain f { type filter hook forward priority 0; iifname up-vrf counter; "+
			"iifname eth0 counter; oifname eth0 counter; oifname up-vrf counter; }; }", "-f", "-")
		err := ping(c.underlay, netip.MustParseAddr("10.65.1.1"), 100)
		require.Equal(t, tables != nil, err == nil, "%v: %v", tables, err)
		seen := nstest.NFT(t, n1.ns, "", "list", "table", "ip", "seen")
		for match, none := range map[string]bool{
			`iifname "up-vrf"`: false, `iifname "eth0"`: true, `oifname "eth0"`: false, `oifname "up-vrf"`: true,
		} {
			require.Equal(t, none, strings.Contains(seen, match+" counter packets 0 "), "%s: %s", match, seen)
		}
		c.reach()
	}
}

// A tunnel's local address may be on a device that sends no packets. Packets leave by the routes of
// the host.
func TestDummyIsSource(t *testing.T) {
	for device, start := range map[string]func(c *cluster){
		"vxlan.way": func(c *cluster) { c.start(pools(policy.EncapAlways)...) },
		"ipip.way":  func(c *cluster) { c.startIPIP(policy.EncapAlways) },
	} {
		t.Run(device, func(t *testing.T) {
			c := newUnderlay(t, 2, 3)
			for i, n := range c.nodes {
				four := netip.MustParsePrefix(fmt.Sprintf("198.51.100.%d/32", i+1))
				n.ip("link add dummy1 type dummy")
				n.ip("link set dev dummy1 up mtu 1400")
				require.NoError(t, n.ns.AddAddr("dummy1", four))
				c.ip(c.underlay, "route add %s via 192.0.%d.%d", four, i+2, i+1)
				n.world.Addresses[0] = four
			}
			start(c)
			c.reach()
			mtu := map[string]string{"vxlan.way": "mtu 1350 ", "ipip.way": "mtu 1380 "}[device]
			require.NotEmpty(t, c.nodes[0].list(mtu, "ip", "-o", "link", "show", "dev", device))
		})
	}
}
