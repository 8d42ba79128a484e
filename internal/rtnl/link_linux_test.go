// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"encoding/json"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// vxlanListed is what "ip -j -d link" says of a VXLAN device.
type vxlanListed struct {
	Ifname, Address, Ifalias string
	Mtu                      int
	Linkinfo                 struct {
		Info_kind string //nolint:revive // the name in ip's JSON
		Info_data struct {
			ID, Port      int
			Local, Local6 string
			Learning      bool
		} //nolint:revive // likewise
	}
}

func TestLinks(t *testing.T) {
	ns, conn, a := open(t)
	links, err := conn.Links()
	require.NoError(t, err)
	require.Len(t, links, 3)
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

func TestVXLAN(t *testing.T) {
	ns, conn, parent := open(t)
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for other, want := range map[netip.Addr]rtnl.Link{
		six: {
			Name: "vx4", MTU: 1450, MAC: rtnl.MAC{2, 0, 0, 0, 0, 4}, Kind: rtnl.KindVXLAN,
			VXLAN: rtnl.VXLAN{VNI: 4096, Port: 4789, Local: four},
		},
		four: {
			Name: "vx6", MTU: 1430, MAC: rtnl.MAC{2, 0, 0, 0, 0, 6}, Kind: rtnl.KindVXLAN,
			VXLAN: rtnl.VXLAN{VNI: 1<<24 - 1, Port: 8472, Local: six, Parent: parent.Index},
		},
	} {
		require.NoError(t, conn.AddVXLAN(want))
		require.ErrorIs(t, conn.AddVXLAN(want), rtnl.ErrExist)
		link, err := conn.Link(want.Name)
		require.NoError(t, err)
		want.Index = link.Index
		require.Equal(t, want, link, "listed as it was made")

		want.VXLAN.Local = want.VXLAN.Local.Next()
		want.MTU, want.MAC[5], want.Alias = 1400, 7, "an alias"
		require.NoError(t, conn.SetUp(link.Index))
		require.NoError(t, conn.ChangeVXLAN(link.Index, want.VXLAN.Local, false))
		require.NoError(t, conn.SetMTU(link.Index, want.MTU))
		require.NoError(t, conn.SetMAC(link.Index, want.MAC))
		require.NoError(t, conn.SetAlias(link.Index, want.Alias))
		want.Up, want.Running = true, true
		link, err = conn.Link(want.Name)
		require.NoError(t, err)
		require.Equal(t, want, link)

		var listed []vxlanListed
		require.NoError(t, json.Unmarshal([]byte(ip(t, ns, "-j", "-d", "link", "show", want.Name)), &listed))
		require.Len(t, listed, 1)
		data := listed[0].Linkinfo.Info_data
		require.Equal(t, int(want.VXLAN.VNI), data.ID)
		require.Equal(t, int(want.VXLAN.Port), data.Port)
		require.Equal(t, want.VXLAN.Local.String(), data.Local+data.Local6)
		require.False(t, data.Learning)
		require.Equal(t, want.Alias, listed[0].Ifalias)

		require.Error(t, conn.ChangeVXLAN(link.Index, other, false), "the kernel cannot change the family")
		another := want
		another.Name = "another"
		require.ErrorIs(t, conn.AddVXLAN(another), rtnl.ErrExist, "one VNI and port, one device")

		links, err := conn.Links()
		require.NoError(t, err)
		require.Contains(t, links, link)
		require.NoError(t, conn.DeleteLink(link.Index))
		require.ErrorIs(t, conn.DeleteLink(link.Index), rtnl.ErrNotFound)
	}
	require.ErrorIs(t, conn.SetUp(9999), rtnl.ErrNotFound)
}

// What a device may have that ours never do is noticed.
func TestStrangeVXLAN(t *testing.T) {
	ns, conn, _ := open(t)
	ip(t, ns, "link", "add", "dev", "group", "type", "vxlan", "id", "7", "dstport", "4789", "group", "239.1.1.1", "dev",
		"a")
	ip(t, ns, "link", "add", "dev", "collect", "type", "vxlan", "dstport", "4790", "external")
	ip(t, ns, "link", "add", "dev", "learning", "type", "vxlan", "id", "8", "dstport", "4791")
	for name, want := range map[string]struct{ other, learning bool }{
		"group": {other: true, learning: true}, "collect": {other: true}, "learning": {learning: true},
	} {
		link, err := conn.Link(name)
		require.NoError(t, err)
		require.Equal(t, rtnl.KindVXLAN, link.Kind)
		require.Equal(t, want.other, link.VXLAN.Other, name)
		require.Equal(t, want.learning, link.VXLAN.Learning, name)
	}
}

func TestAddresses(t *testing.T) {
	ns, conn, a := open(t)
	for _, prefix := range []string{"192.0.2.1/24", "192.0.2.9/32", "2001:db8::1/64"} {
		address := rtnl.Address{Index: a.Index, Prefix: netip.MustParsePrefix(prefix)}
		require.NoError(t, conn.AddAddress(address))
		require.ErrorIs(t, conn.AddAddress(address), rtnl.ErrExist)
		list, err := conn.Addresses()
		require.NoError(t, err)
		require.Contains(t, list, address, "and usable at once")
		require.NoError(t, conn.DeleteAddress(address))
		require.ErrorIs(t, conn.DeleteAddress(address), rtnl.ErrNotFound)
		list, err = conn.Addresses()
		require.NoError(t, err)
		require.NotContains(t, list, address)
	}
	address := rtnl.Address{Index: 9999, Prefix: netip.MustParsePrefix("192.0.2.1/24")}
	require.ErrorIs(t, conn.AddAddress(address), rtnl.ErrNotFound)

	// Of a point-to-point link the near end counts; one that is being probed is marked.
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
