// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// These tests need no device. Those with one have the build tag guest.

func ipipDevice() IPIP {
	return IPIP{
		Name: "ipip.way", Local: netip.MustParseAddr("192.0.2.1"),
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32")},
	}
}

func TestIPIPIsValidated(t *testing.T) {
	require.NoError(t, ipipDevice().validate())
	for name, bad := range map[string]IPIP{
		`"a/b" is not an interface name`:  {Name: "a/b", Local: ipipDevice().Local},
		"tunl0 is the kernel's own":       {Name: "tunl0", Local: ipipDevice().Local},
		"local address invalid IP is":     {Name: "ipip.way"},
		"local address 2001:db8::1 is":    {Name: "ipip.way", Local: netip.MustParseAddr("2001:db8::1")},
		"local address 224.0.0.1 is":      {Name: "ipip.way", Local: netip.MustParseAddr("224.0.0.1")},
		"::ffff:192.0.2.1 is not an IPv4": {Name: "ipip.way", Local: netip.MustParseAddr("::ffff:192.0.2.1")},
		"address invalid Prefix is":       {Name: "ipip.way", Local: ipipDevice().Local, Addresses: []netip.Prefix{{}}},
	} {
		err := bad.validate()
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "\n")
	}
	all := IPIP{Name: "tunl0", Addresses: []netip.Prefix{{}}}
	require.Len(t, strings.Split(all.validate().Error(), "\n"), 3)
}

// TestIPIPFits checks the MTU: of the interface with the local address, less the outer header.
func TestIPIPFits(t *testing.T) {
	ls := &links{}
	ls.Reset([]rtnl.Link{
		{Name: "lo", Index: 1, MTU: 65536},
		{Name: "up0", Index: 2, MTU: 1400},
		{Name: "ipip.way", Index: 3, MTU: 1300, Kind: ipipKind},
	}, []rtnl.Address{
		{Index: 1, Prefix: netip.MustParsePrefix("198.51.100.1/32")},
		{Index: 2, Prefix: netip.MustParsePrefix("192.0.2.1/24")},
	}, time.Time{})
	for local, row := range map[string]struct {
		name      string
		mtu, want uint32
	}{
		"192.0.2.1":    {"new", 0, 1380},
		"192.0.2.2":    {"new", 0, 1480},
		"192.0.2.3":    {"ipip.way", 0, 1300},
		"198.51.100.1": {"new", 0, 1480},
		"192.0.2.4":    {"new", 1234, 1234},
	} {
		d, link, err := IPIP{Name: row.name, Local: netip.MustParseAddr(local), MTU: row.mtu}.fit(ls)
		require.NoError(t, err)
		require.Equal(t, row.want, d.(IPIP).MTU, local)
		require.Equal(t, int(row.want), link.Attrs().MTU, local)
	}
}

// TestIPIPAlterations: a device is altered in place if the kernel can do that, and replaced
// otherwise.
func TestIPIPAlterations(t *testing.T) {
	const set = "ip link set dev ipip.way type ipip mode ipip local 192.0.2.1 ttl inherit nopmtudisc"
	for name, row := range map[string]struct {
		change func(*netlink.Iptun)
		can    bool
		steps  []string
	}{
		"equal":        {func(*netlink.Iptun) {}, true, nil},
		"local":        {func(d *netlink.Iptun) { d.Local = net.IP{192, 0, 2, 2} }, true, []string{set}},
		"no local":     {func(d *netlink.Iptun) { d.Local = net.IP{0, 0, 0, 0} }, true, []string{set}},
		"TTL":          {func(d *netlink.Iptun) { d.Ttl = 64 }, true, []string{set}},
		"TOS":          {func(d *netlink.Iptun) { d.Tos = 4 }, true, []string{set}},
		"discovery":    {func(d *netlink.Iptun) { d.PMtuDisc = 1 }, true, []string{set}},
		"in UDP":       {func(d *netlink.Iptun) { d.EncapType = 1 }, true, []string{set}},
		"parent":       {func(d *netlink.Iptun) { d.ParentIndex = 2 }, true, []string{set}},
		"remote":       {func(d *netlink.Iptun) { d.Remote = net.IP{192, 0, 2, 9} }, false, nil},
		"any protocol": {func(d *netlink.Iptun) { d.Proto = 0 }, false, nil},
		"collector":    {func(d *netlink.Iptun) { d.FlowBased = true }, false, nil},
	} {
		have := &netlink.Iptun{Local: net.IP{192, 0, 2, 1}, Remote: net.IP{0, 0, 0, 0}, Proto: ipipProtocol}
		row.change(have)
		steps, can := ipipDevice().alter(nil, have, &netlink.Iptun{})
		require.Equal(t, row.can, can, name)
		var texts []string
		for _, s := range steps {
			texts = append(texts, s.text)
			require.False(t, s.remakes || s.forgets, name)
		}
		require.Equal(t, row.steps, texts, name)
	}
	_, can := ipipDevice().alter(nil, &netlink.Vxlan{}, &netlink.Iptun{})
	require.False(t, can, "a device of the other encapsulation")

	inVRF, below := ipipDevice(), &netlink.Iptun{LinkAttrs: netlink.LinkAttrs{ParentIndex: 7}}
	inVRF.Parent = "up-vrf"
	have := &netlink.Iptun{Local: net.IP{192, 0, 2, 1}, Remote: net.IP{0, 0, 0, 0}, Proto: ipipProtocol}
	steps, can := inVRF.alter(nil, have, below)
	require.True(t, can)
	require.Equal(t, set+" dev up-vrf", steps[0].text)
	have.ParentIndex = 7
	steps, can = inVRF.alter(nil, have, below)
	require.True(t, can)
	require.Empty(t, steps)
	require.False(t, foreignDevice(rtnl.Link{Name: "ipip.way", Kind: vxlanKind}, DefaultProtocol))
}

// TestDeviceErrors: a device with the same parameters is a foreign one.
func TestDeviceErrors(t *testing.T) {
	err := deviceError(ipipDevice(), syscall.EEXIST)
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorIs(t, err, syscall.EEXIST)
	require.ErrorContains(t, err, "a device with the name or the parameters of ipip.way type ipip mode ipip "+
		"local 192.0.2.1 ttl inherit nopmtudisc")
	other := errors.New("other")
	require.Equal(t, other, deviceError(ipipDevice(), other))
}

// recorder is a sink that keeps the routes.
type recorder map[netip.Prefix]Route

func (r recorder) change(objects []Object, remove bool) {
	for _, o := range objects {
		if route, ok := o.(Route); ok && remove {
			delete(r, route.Dst)
		} else if ok {
			r[route.Dst] = route
		}
	}
}

// TestIPIPRoutesFollowTunnels: the gateway is the address of the node at the other end, also after
// a change of this address.
func TestIPIPRoutesFollowTunnels(t *testing.T) {
	cfg := Config{}.withDefaults()
	routes := recorder{}
	m := newMapper(&cfg, routes)
	m.inSync = true
	dst := netip.MustParsePrefix("10.0.1.0/26")
	tunnel := func(node, parent string, local bool) *dataplane.Tunnel {
		return &dataplane.Tunnel{
			Node: node, IPVersion: 4, Encapsulation: dataplane.EncapIPIP, Local: local,
			Address: netip.MustParseAddr("10.0.1.1"), ParentAddress: netip.MustParseAddr(parent),
		}
	}
	set := func(tunnel *dataplane.Tunnel) {
		m.changeTunnel(tunnel.Key(), tunnel)
		m.flush()
	}
	m.setRoute(&dataplane.Route{Dst: dst, Type: dataplane.RouteRemoteWorkload, Node: "a", Pool: dataplane.PoolIPIP})
	set(tunnel("a", "192.0.2.2", false))
	require.Empty(t, routes, "this node has no tunnel")
	set(tunnel("here", "192.0.2.1", true))
	require.Equal(t, "192.0.2.2", routes[dst].Gateway.String())
	require.True(t, routes[dst].OnLink)
	require.Equal(t, DefaultIPIPDevice, routes[dst].Interface)
	set(tunnel("a", "192.0.2.3", false))
	require.Equal(t, "192.0.2.3", routes[dst].Gateway.String())
	m.changeTunnel(dataplane.TunnelKey{Node: "here", IPVersion: 4, Encapsulation: dataplane.EncapIPIP}, nil)
	m.flush()
	require.Empty(t, routes)
}
