// SPDX-License-Identifier: Apache-2.0

package revoke

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// A routeFinder finds addresses by the routes of the node.
func TestRouteFinder(t *testing.T) {
	ns := nstest.New(t)
	nstest.NewWorkload(t, ns, "way1")
	for a, link := range map[string]string{
		"192.0.2.1/32": "lo", "2001:db8::1/128": "lo", "192.0.2.2/24": "way1", "2001:db8::2/64": "way1",
	} {
		require.NoError(t, ns.AddAddr(link, netip.MustParsePrefix(a)))
	}
	conn, err := rtnl.Dial(rtnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	r := newRouteFinder(conn)
	require.Eventually(t, func() bool { // the kernel uses an IPv6 address only some time after it was added
		route, err := conn.Lookup(netip.MustParseAddr("2001:db8::7"))
		return err == nil && route.Type == rtnl.TypeUnicast
	}, 20*time.Second, time.Millisecond)
	for address, want := range map[string][]Side{
		"192.0.2.1": {{Local: true}}, "2001:db8::1": {{Local: true}}, "127.0.0.1": {{Local: true}},
		"192.0.2.7": {{Interface: "way1"}}, "2001:db8::7": {{Interface: "way1"}},
		"198.51.100.1": nil, "fd00::1": nil, "fe80::1": nil, "224.0.0.1": nil, "192.0.2.255": nil,
	} {
		for range 2 {
			require.Equal(t, want, r.Find(netip.MustParseAddr(address)), address)
		}
	}
	require.Len(t, r.found, 10)
	r.clear()
	require.Empty(t, r.found)
}
