// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package routes

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

// These tests need the kernel's module ipip; scripts/test-kernels runs them.

func (h *deviceHost) iptun(name string) *netlink.Iptun {
	h.Helper()
	link, err := readDevice(h.conn, h.index(name))
	require.NoError(h, err)
	require.IsType(h, &netlink.Iptun{}, link)
	return link.(*netlink.Iptun)
}

func TestIPIPIsAdded(t *testing.T) {
	h := newDeviceHost(t)
	fallback := h.iptun("tunl0")
	made := []string{
		"ip link add ipip.way mtu 1480 type ipip mode ipip local 192.0.2.1 ttl inherit nopmtudisc",
		"ip link set dev ipip.way alias 'wayleave proto 219'",
		"ip addr add 10.0.0.2/32 dev ipip.way",
		"ip link set dev ipip.way up",
	}
	require.Equal(t, made, h.keep(ipipDevice()))
	require.Empty(t, h.keep(ipipDevice()))
	d := h.iptun("ipip.way")
	require.Equal(t, []any{"192.0.2.1", "0.0.0.0", uint8(0), uint8(0), uint8(ipipProtocol), 1480}, []any{
		d.Local.String(), d.Remote.String(), d.Ttl, d.PMtuDisc, d.Proto, d.MTU,
	})

	// A device made by ip with the text is equal.
	h.ip("link del dev ipip.way")
	h.ip("link add ipip.way mtu 1480 type ipip mode ipip local 192.0.2.1 ttl inherit nopmtudisc")
	require.Equal(t, made[1:], h.keep(ipipDevice()))

	// It does not conflict with VXLAN devices, nor with the kernel's own device, which does not
	// change.
	h.keep(vxlan4())
	require.Empty(t, h.keep(ipipDevice()))
	require.Equal(t, fallback, h.iptun("tunl0"))
	require.Equal(t, []string{"ipip.way", "vxlan.way"},
		unwantedDevices(nil, []string{"ipip.way"}, DefaultProtocol, h.links()))
}

// The device is altered if the kernel can change it.
func TestIPIPIsAltered(t *testing.T) {
	h := newDeviceHost(t)
	h.keep(ipipDevice())
	index := h.index("ipip.way")
	want := ipipDevice()
	want.Local, want.MTU = netip.MustParseAddr("192.0.2.7"), 1400
	want.Addresses = []netip.Prefix{netip.MustParsePrefix("10.0.0.9/32")}
	require.NoError(t, h.ns.AddAddr("up0", netip.MustParsePrefix("192.0.2.7/24")))
	set := "ip link set dev ipip.way type ipip mode ipip local 192.0.2.7 ttl inherit nopmtudisc"
	require.Equal(t, []string{
		set, "ip link set dev ipip.way mtu 1400", "ip addr add 10.0.0.9/32 dev ipip.way",
		"ip addr del 10.0.0.2/32 dev ipip.way",
	}, h.keep(want))

	// Changes by another process.
	for _, row := range []struct {
		command string
		want    []string
	}{
		{"link set dev ipip.way down", []string{"ip link set dev ipip.way up"}},
		{"addr add 10.7.7.7/24 dev ipip.way", []string{"ip addr del 10.7.7.7/24 dev ipip.way"}},
		{"link set dev ipip.way mtu 1200", []string{"ip link set dev ipip.way mtu 1400"}},
		{"link set dev ipip.way type ipip local 192.0.2.1 ttl inherit nopmtudisc", []string{set}},
		{"link set dev ipip.way type ipip local 192.0.2.7 ttl 9 pmtudisc", []string{set}},
		{"link set dev ipip.way type ipip local 192.0.2.7 tos 4 nopmtudisc", []string{set}},
		{"link set dev ipip.way type ipip local 192.0.2.7 pmtudisc", []string{set}},
	} {
		h.ip(row.command)
		require.Equal(t, row.want, h.keep(want), row.command)
	}
	// If the kernel gives the device a parent, it also changes its MTU to that of the parent.
	h.ip("link set dev ipip.way type ipip local 192.0.2.7 ttl inherit nopmtudisc dev up0")
	require.NotZero(t, h.iptun("ipip.way").ParentIndex)
	ls := h.links()
	for range 2 { // the second plan has an MTU that the first step changes
		steps, err := planDevice(h.conn, want, DefaultProtocol, ls)
		require.NoError(t, err)
		require.NoError(t, runSteps(h.conn, want.Name, ls, steps))
		ls = h.links()
	}
	require.Empty(t, h.keep(want))
	require.Zero(t, h.iptun("ipip.way").ParentIndex)

	// The MTU follows the underlying interface, if it is not given.
	want.MTU = 0
	require.Equal(t, []string{"ip link set dev ipip.way mtu 1480"}, h.keep(want))
	h.ip("link set dev up0 mtu 1400")
	require.Equal(t, []string{"ip link set dev ipip.way mtu 1380"}, h.keep(want))
	h.ip("addr del 192.0.2.7/24 dev up0")
	require.Empty(t, h.keep(want), "without an underlying interface, the MTU stays")
	require.Equal(t, index, h.index("ipip.way"))
}

// The device is recreated if the kernel cannot change it.
func TestUnchangeableIPIPIsReplaced(t *testing.T) {
	h := newDeviceHost(t)
	for what, made := range map[string]string{
		"remote":               "link add ipip.way type ipip local 192.0.2.1 remote 192.0.2.9",
		"any inner protocol":   "link add ipip.way type ipip local 192.0.2.1 mode any",
		"collector":            "link add ipip.way type ipip external",
		"another kind, by us":  "link add ipip.way type vxlan id 7 dstport 4789",
		"remote and no local":  "link add ipip.way type ipip remote 192.0.2.9",
		"a parent and no peer": "link add ipip.way type ipip remote 192.0.2.9 dev up0",
	} {
		h.ip(made)
		index := h.index("ipip.way")
		require.Equal(t, "ip link del dev ipip.way", h.keep(ipipDevice())[0], what)
		require.NotEqual(t, index, h.index("ipip.way"), what)
		d := h.iptun("ipip.way")
		require.Equal(t, "192.0.2.1 0.0.0.0", d.Local.String()+" "+d.Remote.String(), what)
		h.ip("link del dev ipip.way")
	}
}

// Foreign devices are not changed.
func TestIPIPForeign(t *testing.T) {
	h := newDeviceHost(t)
	for _, made := range [][]string{
		{"link add dev ipip.way type veth peer name other"},
		{"link add dev ipip.way type ipip local 192.0.2.1", "link set dev ipip.way alias other"},
		{"link add dev ipip.way type gre local 192.0.2.1"},
	} {
		for _, command := range made {
			h.ip(command)
		}
		before := h.index("ipip.way")
		_, err := planDevice(h.conn, ipipDevice(), DefaultProtocol, h.links())
		require.ErrorIs(t, err, ErrForeign)
		require.Empty(t, unwantedDevices(nil, nil, DefaultProtocol, h.links()))
		require.Equal(t, before, h.index("ipip.way"))
		h.ip("link del dev ipip.way")
	}

	// The kernel allows one device for each local address: it refuses a second one, and refuses to
	// give another device the address.
	h.ip("link add dev theirs type ipip local 192.0.2.1")
	ls := h.links()
	steps, err := planDevice(h.conn, ipipDevice(), DefaultProtocol, ls)
	require.NoError(t, err)
	err = runSteps(h.conn, "ipip.way", ls, steps)
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, "a device with the name or the parameters of ipip.way mtu 1480 type ipip mode ipip "+
		"local 192.0.2.1")
	elsewhere := ipipDevice()
	elsewhere.Local = netip.MustParseAddr("192.0.2.7")
	h.keep(elsewhere)
	ls = h.links()
	steps, err = planDevice(h.conn, ipipDevice(), DefaultProtocol, ls)
	require.NoError(t, err)
	require.ErrorIs(t, runSteps(h.conn, "ipip.way", ls, steps), ErrForeign)
	require.Equal(t, "192.0.2.7", h.iptun("ipip.way").Local.String())
	h.ip("link del dev theirs")
	require.Len(t, h.keep(ipipDevice()), 1)
}
