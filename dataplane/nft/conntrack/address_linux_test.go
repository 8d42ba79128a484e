// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Every flow with the address in any field ends; no other flow does.
func TestEndAddressesOfRealTraffic(t *testing.T) {
	n := newNetwork(t, services)
	require.NoError(t, n.node.AddAddr("lo", netip.MustParsePrefix("192.0.2.1/32")))
	to, from := n.dial(t, "tcp", 0, port(own(0, 1), 80)), n.dial(t, "udp", 1, port(own(0, 0), 80))
	behind := n.dial(t, "tcp", 0, netip.MustParseAddrPort("10.96.0.1:8000"))
	other := n.dial(t, "tcp", 0, port(own(1, 1), 80))
	for _, c := range []struct {
		address string
		ended   int
		left    []net.Conn
	}{
		{"10.99.0.9", 0, []net.Conn{to, from, behind, other}},
		{"192.0.2.1", 1, []net.Conn{to, from, other}},
		{"10.99.0.2", 2, []net.Conn{other}},
		{"fd00:99::1", 1, nil},
	} {
		ended, err := n.conn.EndAddresses(t.Context(), netip.MustParseAddr(c.address))
		require.NoError(t, err)
		require.Equal(t, c.ended, ended, c.address)
		for _, conn := range c.left {
			require.True(t, n.tracked(t, conn), "%s", conn.RemoteAddr())
		}
	}
}

// With many flows, the kernel's filter is used if it works.
func TestEndHostsAmongManyFlows(t *testing.T) {
	const total = 3 * conntrack.FlowsPerFilter
	for family := range 2 {
		ns := nstest.New(t)
		c := fillFamily(t, ns, 0, total, family)
		one := numberedOf(7, family)
		for _, a := range []netip.Addr{own(family, 8), one.Source().Addr()} {
			ended, err := c.EndHosts(t.Context(), a)
			require.NoError(t, err)
			left, err := c.Count()
			require.NoError(t, err)
			require.Equal(t, total-left, ended, a)
		}
		left, err := c.Count()
		require.NoError(t, err)
		require.Equal(t, total-1, left)
		four, six := conntrack.FiltersWork(c)
		t.Logf("%d flows of IPv%d; the kernel filters IPv4: %v, IPv6: %v", total, 4+2*family, four, six)
	}
}
