// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"encoding/json"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// vxlanListed is a VXLAN device in the output of "ip -j -d link".
type vxlanListed struct {
	Linkinfo struct {
		Info_data struct { //nolint:revive // the name in ip's JSON
			Local, Local6 string
			Learning      bool
		}
	}
}

func TestLinks(t *testing.T) {
	ns, conn, a := open(t)
	links, err := conn.Links()
	require.NoError(t, err)
	// A new namespace has lo and the devices of modules such as ipip.
	var fresh []net.Interface
	require.NoError(t, nstest.New(t).Do(func() (err error) {
		fresh, err = net.Interfaces()
		return err
	}))
	require.Len(t, links, len(fresh)+2)
	require.Equal(t, rtnl.Link{Name: "lo", Index: 1, Up: true, Running: true, MTU: 65536}, links[0])
	want := rtnl.Link{Name: "a", Index: a.Index, Up: true, Running: true, MTU: 1500, MAC: rtnl.MAC(a.MAC), Kind: "veth"}
	link, err := conn.Link("a")
	require.NoError(t, err)
	require.Equal(t, want, link)
	require.NoError(t, ns.Down("b"))
	want.Running = false
	link, err = conn.Link("a")
	require.NoError(t, err)
	require.Equal(t, want, link, "no carrier")
	require.NoError(t, ns.Down("a"))
	want.Up = false
	link, err = conn.Link("a")
	require.NoError(t, err)
	require.Equal(t, want, link)
	link, err = conn.LinkByIndex(a.Index)
	require.NoError(t, err)
	require.Equal(t, want, link)
	ip(t, ns, "link", "add", "name", "br0", "type", "bridge")
	ip(t, ns, "link", "set", "dev", "a", "master", "br0")
	bridge, err := conn.Link("br0")
	require.NoError(t, err)
	require.Equal(t, "bridge", bridge.Kind)
	link, err = conn.Link("a")
	require.NoError(t, err)
	require.Equal(t, bridge.Index, link.Master)
	_, err = conn.LinkByIndex(9999)
	require.ErrorIs(t, err, rtnl.ErrNotFound)
	_, err = conn.Link("none")
	require.ErrorIs(t, err, rtnl.ErrNotFound)
	require.ErrorIs(t, err, syscall.ENODEV)
}

// A VXLAN device keeps its index when its local address changes. The kernel cannot change the
// address family.
func TestChangeVXLAN(t *testing.T) {
	ns, conn, _ := open(t)
	for local, other := range map[string]string{"192.0.2.1": "2001:db8::1", "2001:db8::1": "192.0.2.1"} {
		ip(t, ns, "link", "add", "dev", "vx", "type", "vxlan", "id", "7", "dstport", "4789", "local", local)
		link, err := conn.Link("vx")
		require.NoError(t, err)
		require.Equal(t, "vxlan", link.Kind)
		want := netip.MustParseAddr(local).Next()
		require.NoError(t, conn.ChangeVXLAN(link.Index, want))
		again, err := conn.Link("vx")
		require.NoError(t, err)
		require.Equal(t, link, again)

		var listed []vxlanListed
		require.NoError(t, json.Unmarshal([]byte(ip(t, ns, "-j", "-d", "link", "show", "vx")), &listed))
		require.Len(t, listed, 1)
		data := listed[0].Linkinfo.Info_data
		require.Equal(t, want.String(), data.Local+data.Local6)
		require.False(t, data.Learning)

		err = conn.ChangeVXLAN(link.Index, netip.MustParseAddr(other))
		var refused *rtnl.Error
		require.ErrorAs(t, err, &refused)
		require.NotEmpty(t, refused.Detail, "the kernel's explanation")
		ip(t, ns, "link", "del", "dev", "vx")
		require.ErrorIs(t, conn.ChangeVXLAN(link.Index, want), rtnl.ErrNotFound)
	}
}

// Handle returns the same connection each time, in the namespace of the Conn.
func TestHandle(t *testing.T) {
	_, conn, a := open(t)
	h, err := conn.Handle()
	require.NoError(t, err)
	link, err := h.LinkByName("a")
	require.NoError(t, err)
	require.Equal(t, a.Index, link.Attrs().Index)
	again, err := conn.Handle()
	require.NoError(t, err)
	require.Same(t, h, again)
}

func TestAddresses(t *testing.T) {
	ns, conn, a := open(t)
	for _, prefix := range []string{"192.0.2.1/24", "192.0.2.9/32", "2001:db8::1/64"} {
		address := rtnl.Address{Index: a.Index, Prefix: netip.MustParsePrefix(prefix)}
		ip(t, ns, "addr", "add", prefix, "dev", "a", "nodad")
		list, err := conn.Addresses()
		require.NoError(t, err)
		require.Contains(t, list, address, "not tentative")
		ip(t, ns, "addr", "del", prefix, "dev", "a")
		list, err = conn.Addresses()
		require.NoError(t, err)
		require.NotContains(t, list, address)
	}

	// The address of a point-to-point link is the local one. An address is marked during duplicate
	// address detection.
	ip(t, ns, "addr", "add", "192.0.2.1", "peer", "192.0.2.2", "dev", "a")
	require.NoError(t, ns.SetSysctl("net/ipv6/conf/b/accept_dad", "1"))
	ip(t, ns, "addr", "add", "2001:db8::2/64", "dev", "b")
	list, err := conn.Addresses()
	require.NoError(t, err)
	require.Contains(t, list, rtnl.Address{Index: a.Index, Prefix: netip.MustParsePrefix("192.0.2.1/32")})
	b, err := ns.Link("b")
	require.NoError(t, err)
	require.Contains(t, list, rtnl.Address{
		Index: b.Index, Prefix: netip.MustParsePrefix("2001:db8::2/64"), Tentative: true,
	})
}
