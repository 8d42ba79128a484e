// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/rtnl"
)

func linkEvent(index int, name string, up bool) *rtnl.Event {
	return &rtnl.Event{Group: rtnl.GroupLinks, Link: rtnl.Link{Index: index, Name: name, Up: up}}
}

func goneEvent(index int, name string) *rtnl.Event {
	e := linkEvent(index, name, false)
	e.Gone = true
	return e
}

func addressEvent(index int, prefix string, gone bool) *rtnl.Event {
	return &rtnl.Event{
		Group: rtnl.GroupAddresses, Gone: gone,
		Address: rtnl.Address{Index: index, Prefix: netip.MustParsePrefix(prefix)},
	}
}

// S124: the state of interfaces after each event.
func TestLinkEvents(t *testing.T) {
	start := time.Unix(1000, 0)
	l := &links{}
	l.Reset([]rtnl.Link{{Index: 1, Name: "lo", Up: true}}, nil, start)
	altered := linkEvent(2, "b", true)
	altered.Link.MTU = 1400
	for i, row := range []struct {
		what  string
		event *rtnl.Event
		want  rtnl.LinkChange
	}{
		{
			"comes, down", linkEvent(2, "a", false),
			rtnl.LinkChange{Replaced: true, Changed: true, Index: 2, Name: "a", Flushed: true},
		},
		{
			"up", linkEvent(2, "a", true),
			rtnl.LinkChange{Changed: true, Index: 2, Name: "a", OldName: "a", Appeared: true},
		},
		{"repeated", linkEvent(2, "a", true), rtnl.LinkChange{Index: 2, Name: "a", OldName: "a"}},
		{"address", addressEvent(2, "192.0.2.1/24", false), rtnl.LinkChange{
			Changed: true,
			Index:   2, Name: "a", OldName: "a", Address: true,
		}},
		{"address again", addressEvent(2, "192.0.2.1/24", false), rtnl.LinkChange{Index: 2, Name: "a", OldName: "a"}},
		{
			"another address goes", addressEvent(2, "192.0.2.2/24", true),
			rtnl.LinkChange{Index: 2, Name: "a", OldName: "a"},
		},
		{
			"down", linkEvent(2, "a", false),
			rtnl.LinkChange{Changed: true, Index: 2, Name: "a", OldName: "a", Flushed: true},
		},
		{
			"up again", linkEvent(2, "a", true),
			rtnl.LinkChange{Changed: true, Index: 2, Name: "a", OldName: "a", Appeared: true},
		},
		{
			"renamed", linkEvent(2, "b", true),
			rtnl.LinkChange{Replaced: true, Changed: true, Index: 2, Name: "b", OldName: "a", Renamed: true},
		},
		{
			"another takes the name", linkEvent(3, "a", true),
			rtnl.LinkChange{Replaced: true, Changed: true, Index: 3, Name: "a", Appeared: true},
		},
		{
			"address goes", addressEvent(2, "192.0.2.1/24", true),
			rtnl.LinkChange{
				Changed: true,
				Index:   2, Name: "b", OldName: "b", Address: true, Removed: netip.MustParseAddr("192.0.2.1"),
				Flushed: true,
			},
		},
		{"gets an IPv6 address", addressEvent(2, "2001:db8::1/64", false), rtnl.LinkChange{
			Changed: true,
			Index:   2, Name: "b", OldName: "b", Address: true,
		}},
		{
			"loses it", addressEvent(2, "2001:db8::1/64", true),
			rtnl.LinkChange{
				Changed: true, Index: 2, Name: "b", OldName: "b", Address: true,
				Removed: netip.MustParseAddr("2001:db8::1"),
			},
		},
		{"another MTU", altered, rtnl.LinkChange{Changed: true, Index: 2, Name: "b", OldName: "b", Altered: true}},
		{
			"goes", goneEvent(2, "b"),
			rtnl.LinkChange{
				Replaced: true, Changed: true, Index: 2, Name: "b", OldName: "b", Flushed: true, Deleted: true,
			},
		},
		{
			"goes again", goneEvent(2, "b"),
			rtnl.LinkChange{Replaced: true, Index: 2, Name: "b", Flushed: true, Deleted: true},
		},
		{"address of none", addressEvent(2, "192.0.2.1/24", true), rtnl.LinkChange{Index: 2}},
		{
			"comes as another", linkEvent(4, "b", true),
			rtnl.LinkChange{Replaced: true, Changed: true, Index: 4, Name: "b", Appeared: true},
		},
	} {
		require.Equal(t, row.want, l.update(row.event, start.Add(time.Duration(i)*time.Second)), row.what)
	}
	a, ok := l.named("a")
	require.True(t, ok)
	require.Equal(t, 3, a.Index)
	_, ok = l.index(2)
	require.False(t, ok)
	require.Equal(t, start, l.since(1))
	require.Equal(t, start.Add(9*time.Second), l.since(3))
	require.Zero(t, l.since(2))

	// An interface that is listed again keeps the time since when it exists.
	l.Reset([]rtnl.Link{{Index: 3, Name: "c"}, {Index: 5, Name: "a"}}, nil, start.Add(time.Hour))
	require.Equal(t, start.Add(9*time.Second), l.since(3))
	require.Equal(t, start.Add(time.Hour), l.since(5))
	_, ok = l.named("b")
	require.False(t, ok)
}

// Two interfaces swap their names through a third name, with one message for each step.
func TestNamesAreSwapped(t *testing.T) {
	l := &links{}
	l.Reset([]rtnl.Link{{Index: 1, Name: "a"}, {Index: 2, Name: "b"}}, nil, time.Time{})
	for _, e := range []*rtnl.Event{linkEvent(1, "x", true), linkEvent(2, "a", true), linkEvent(1, "b", true)} {
		require.True(t, l.update(e, time.Time{}).Renamed)
	}
	for name, index := range map[string]int{"a": 2, "b": 1} {
		link, ok := l.named(name)
		require.True(t, ok)
		require.Equal(t, index, link.Index)
	}
	_, ok := l.named("x")
	require.False(t, ok)
}

func TestInterfaceOfLongestSubnet(t *testing.T) {
	l := &links{}
	address := func(index int, prefix string) rtnl.Address {
		return rtnl.Address{Index: index, Prefix: netip.MustParsePrefix(prefix)}
	}
	tentative := address(4, "10.9.0.1/24")
	tentative.Tentative = true
	l.Reset(
		[]rtnl.Link{
			{Index: 1, Name: "wide", Up: true},
			{Index: 2, Name: "narrow", Up: true},
			{Index: 3, Name: "same", Up: true},
			{Index: 4, Name: "down"},
		},
		[]rtnl.Address{
			address(1, "10.0.0.1/8"), address(3, "10.1.0.3/16"), address(2, "10.1.0.2/16"), address(4, "10.2.0.1/24"),
			address(1, "10.1.9.9/32"), address(1, "fe80::1/64"), address(2, "2001:db8::1/64"), tentative,
		}, time.Time{})
	for to, want := range map[string]string{
		"10.1.0.9": "narrow", "10.2.0.9": "wide", "10.1.9.9": "narrow", "192.0.2.1": "", "2001:db8::7": "narrow",
		"fe80::7": "", "10.9.0.9": "wide",
	} {
		link, ok := l.towards(netip.MustParseAddr(to))
		require.Equal(t, want, link.Name, to)
		require.Equal(t, want != "", ok, to)
	}
	l.update(linkEvent(4, "down", true), time.Time{})
	link, _ := l.towards(netip.MustParseAddr("10.2.0.9"))
	require.Equal(t, "down", link.Name, "it is up now")
	l.update(addressEvent(4, "10.2.0.1/24", true), time.Time{})
	link, _ = l.towards(netip.MustParseAddr("10.2.0.9"))
	require.Equal(t, "wide", link.Name)

	link, ok := l.linkWithAddress(netip.MustParseAddr("10.1.0.3"))
	require.True(t, ok)
	require.Equal(t, "same", link.Name)
	_, ok = l.linkWithAddress(netip.MustParseAddr("10.1.0.4"))
	require.False(t, ok)
}

// An address is used once the kernel has detected no duplicate. Before that, it is ignored in the
// list of all addresses and in events.
func TestTentativeAddressesAreIgnored(t *testing.T) {
	l, address := &links{}, netip.MustParseAddr("2001:db8::1")
	tentative := addressEvent(2, "2001:db8::1/64", false)
	tentative.Address.Tentative = true
	l.Reset([]rtnl.Link{{Index: 2, Name: "a", Up: true}}, []rtnl.Address{tentative.Address}, time.Unix(1000, 0))
	_, ok := l.linkWithAddress(address)
	require.False(t, ok, "listed")
	require.False(t, l.update(tentative, time.Unix(1001, 0)).Address)
	_, ok = l.linkWithAddress(address)
	require.False(t, ok, "an event")
	require.True(t, l.update(addressEvent(2, "2001:db8::1/64", false), time.Unix(1002, 0)).Address)
	_, ok = l.linkWithAddress(address)
	require.True(t, ok)
}

// Only ports of configured bridges are ports: neither those of another kind of master nor tunnel
// devices.
func TestPortsOfBridges(t *testing.T) {
	l := &links{bridges: []string{"br0", "br1"}, devices: []string{"vxlan.way"}}
	l.Reset([]rtnl.Link{
		{Index: 1, Name: "br0", Kind: "bridge"},
		{Index: 2, Name: "br1", Kind: "bond"},
		{Index: 3, Name: "br2", Kind: "bridge"},
		{Index: 4, Name: "a", Master: 1},
		{Index: 5, Name: "b", Master: 2},
		{Index: 6, Name: "c", Master: 3},
		{Index: 7, Name: "vxlan.way", Master: 1},
		{Index: 8, Name: "d", Master: 99},
		{Index: 9, Name: "e"},
	}, nil, time.Time{})
	names := map[string]bool{}
	l.ports(names)
	require.Equal(t, map[string]bool{"a": true}, names)
	require.Equal(t, names, l.portsOf(1))
	require.Equal(t, names, l.portsOf(4))
	require.Empty(t, l.portsOf(2))
	_, err := l.usable("a")
	require.ErrorIs(t, err, errPort)
	require.False(t, l.portNamed("none"))
}
