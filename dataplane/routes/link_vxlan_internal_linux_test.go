// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// deviceHost is a namespace for tests of devices, with an uplink that has the addresses
// 192.0.2.1/24 and 2001:db8::1/64.
type deviceHost struct {
	*testing.T
	ns   *netns.NS
	conn *rtnl.Conn
}

func newDeviceHost(t *testing.T) *deviceHost {
	h := &deviceHost{T: t, ns: nstest.New(t)}
	_, _, err := netns.Veth(netns.End{NS: h.ns, Name: "up0"}, netns.End{NS: h.ns, Name: "far"})
	require.NoError(t, err)
	require.NoError(t, h.ns.AddAddr("up0", netip.MustParsePrefix("192.0.2.1/24")))
	require.NoError(t, h.ns.AddAddr("up0", netip.MustParsePrefix("2001:db8::1/64")))
	h.conn, err = rtnl.Dial(rtnl.Config{NetNS: h.ns.FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.conn.Close()) })
	return h
}

func (h *deviceHost) ip(command string) {
	h.Helper()
	require.NoError(h, h.ns.Do(func() error {
		out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}), command)
}

func (h *deviceHost) links() *links {
	h.Helper()
	l := &links{}
	require.NoError(h, l.read(h.conn, time.Time{}))
	return l
}

// keep programs the device, checks that a second plan is empty, and returns the commands of the
// first.
func (h *deviceHost) keep(want device) (texts []string) {
	h.Helper()
	require.NoError(h, want.validate())
	ls := h.links()
	steps, err := planDevice(h.conn, want, DefaultProtocol, ls)
	require.NoError(h, err)
	require.NoError(h, runSteps(h.conn, want.name(), ls, steps))
	for _, s := range steps {
		texts = append(texts, s.text)
	}
	again, err := planDevice(h.conn, want, DefaultProtocol, h.links())
	require.NoError(h, err)
	require.Empty(h, again)
	return texts
}

func (h *deviceHost) index(name string) int {
	h.Helper()
	link, err := h.conn.Link(name)
	require.NoError(h, err)
	return link.Index
}

func vxlan4() *VXLAN {
	return &VXLAN{
		Name: "vxlan.way", VNI: 4096, Port: 4789, Local: netip.MustParseAddr("192.0.2.1"),
		MAC: MAC{0x66, 0, 0, 0, 0, 4}, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/32")},
	}
}

func vxlan6() *VXLAN {
	return &VXLAN{
		Name: "vxlan6.way", VNI: 4096, Port: 4789, Local: netip.MustParseAddr("2001:db8::1"),
		MAC: MAC{0x66, 0, 0, 0, 0, 6}, Addresses: []netip.Prefix{netip.MustParsePrefix("2001:db8:1::/128")},
	}
}

func TestVXLANIsAdded(t *testing.T) {
	h := newDeviceHost(t)
	require.Equal(t, []string{
		"ip link add vxlan.way mtu 1450 address 66:00:00:00:00:04 type vxlan id 4096 dstport 4789 local " +
			"192.0.2.1 nolearning",
		"ip link set dev vxlan.way alias 'wayleave proto 219'",
		"ip addr add 10.0.0.0/32 dev vxlan.way",
		"ip link set dev vxlan.way up",
	}, h.keep(vxlan4()))
	require.Equal(t, []string{
		"ip link add vxlan6.way mtu 1430 address 66:00:00:00:00:06 type vxlan id 4096 dstport 4789 local " +
			"2001:db8::1 nolearning",
		"ip link set dev vxlan6.way alias 'wayleave proto 219'",
		"ip addr add 2001:db8:1::/128 dev vxlan6.way",
		"ip link set dev vxlan6.way up",
	}, h.keep(vxlan6()), "the two do not conflict, although VNI and port are the same")
	require.Empty(t, h.keep(vxlan4()))

	// A device made by ip with the text is equal.
	for _, text := range []string{"link del dev vxlan.way", "link add vxlan.way mtu 1450 address 66:00:00:00:00:04 " +
		"type vxlan id 4096 dstport 4789 local 192.0.2.1 nolearning"} {
		h.ip(text)
	}
	require.Equal(t, []string{
		"ip link set dev vxlan.way alias 'wayleave proto 219'", "ip addr add 10.0.0.0/32 dev vxlan.way",
		"ip link set dev vxlan.way up",
	}, h.keep(vxlan4()))
}

// The device is altered if the kernel can change it.
func TestVXLANIsAltered(t *testing.T) {
	h := newDeviceHost(t)
	h.keep(vxlan4())
	index := h.index("vxlan.way")
	want := vxlan4()
	want.MAC[5], want.MTU, want.Addresses[0] = 5, 1400, netip.MustParsePrefix("10.0.0.9/32")
	require.NoError(t, h.ns.AddAddr("up0", netip.MustParsePrefix("192.0.2.7/24")))
	want.Local = netip.MustParseAddr("192.0.2.7")
	require.Equal(t, []string{
		"ip link set dev vxlan.way type vxlan local 192.0.2.7 nolearning",
		"ip link set dev vxlan.way address 66:00:00:00:00:05",
		"ip link set dev vxlan.way mtu 1400",
		"ip addr add 10.0.0.9/32 dev vxlan.way",
		"ip addr del 10.0.0.0/32 dev vxlan.way",
	}, h.keep(want))
	require.Equal(t, index, h.index("vxlan.way"))

	// Changes by another process.
	h.ip("link set dev vxlan.way down")
	h.ip("addr add 10.7.7.7/24 dev vxlan.way")
	h.ip("link set dev vxlan.way type vxlan learning")
	require.Equal(t, []string{
		"ip link set dev vxlan.way type vxlan local 192.0.2.7 nolearning", "ip addr del 10.7.7.7/24 dev vxlan.way",
		"ip link set dev vxlan.way up",
	}, h.keep(want))

	// The MTU follows the underlying interface, if it is not given.
	want.MTU = 0
	require.Equal(t, []string{"ip link set dev vxlan.way mtu 1450"}, h.keep(want))
	h.ip("link set dev up0 mtu 1400")
	require.Equal(t, []string{"ip link set dev vxlan.way mtu 1350"}, h.keep(want))
	h.ip("addr del 192.0.2.7/24 dev up0")
	require.Empty(t, h.keep(want), "without an underlying interface, the MTU stays")
	require.Equal(t, index, h.index("vxlan.way"))
}

// The device is recreated if the kernel cannot change it.
func TestUnchangeableVXLANIsReplaced(t *testing.T) {
	h := newDeviceHost(t)
	for what, row := range map[string]struct {
		change func(v *VXLAN)
		before string // commands to run first
	}{
		"VNI":    {change: func(v *VXLAN) { v.VNI = 7 }},
		"port":   {change: func(v *VXLAN) { v.Port = 8472 }},
		"parent": {change: func(v *VXLAN) { v.Parent = "up0" }},
		"family": {change: func(v *VXLAN) { v.Local = netip.MustParseAddr("2001:db8::1") }},
		"another process recreated it": {
			change: func(*VXLAN) {},
			before: "link add vxlan.way type vxlan id 4096 dstport 4789 group 239.1.1.1 dev up0",
		},
		"another process recreated it for a collector": {
			change: func(*VXLAN) {}, before: "link add vxlan.way type vxlan dstport 4789 external",
		},
		"another process recreated it with group policy": {
			change: func(*VXLAN) {},
			before: "link add vxlan.way type vxlan id 4096 dstport 4789 local 192.0.2.1 gbp",
		},
	} {
		h.keep(vxlan4())
		if row.before != "" {
			h.ip("link del dev vxlan.way")
			h.ip(row.before)
		}
		index := h.index("vxlan.way")
		want := vxlan4()
		row.change(want)
		require.Equal(t, "ip link del dev vxlan.way", h.keep(want)[0], what)
		require.NotEqual(t, index, h.index("vxlan.way"), what)
		link, err := readDevice(h.conn, h.index("vxlan.way"))
		require.NoError(t, err)
		require.Equal(t, int(want.VNI), link.(*netlink.Vxlan).VxlanId, what)
		require.Equal(t, int(want.Port), link.(*netlink.Vxlan).Port, what)
	}
}

// Foreign devices are not changed, and nothing is changed if the parent does not exist.
func TestVXLANForeign(t *testing.T) {
	h := newDeviceHost(t)
	for _, made := range [][]string{
		{"link add dev vxlan.way type veth peer name other"},
		{"link add dev vxlan.way type vxlan id 4096 dstport 4789", "link set dev vxlan.way alias other"},
	} {
		for _, command := range made {
			h.ip(command)
		}
		before := h.index("vxlan.way")
		_, err := planDevice(h.conn, *vxlan4(), DefaultProtocol, h.links())
		require.ErrorIs(t, err, ErrForeign)
		require.Empty(t, unwantedDevices(nil, nil, DefaultProtocol, h.links()))
		require.Equal(t, before, h.index("vxlan.way"))
		h.ip("link del dev vxlan.way")
	}

	h.ip("link add dev stray type veth peer name other")
	handle, err := h.conn.Handle()
	require.NoError(t, err)
	stray, err := handle.LinkByName("stray")
	require.NoError(t, err)
	require.NoError(t, handle.LinkSetAlias(stray, deviceAlias(DefaultProtocol)))
	require.Empty(t, unwantedDevices(nil, nil, DefaultProtocol, h.links()), "a device of another kind")

	h.ip("link add dev another type vxlan id 4096 dstport 4789")
	ls := h.links()
	steps, err := planDevice(h.conn, *vxlan4(), DefaultProtocol, ls)
	require.NoError(t, err)
	require.ErrorIs(t, runSteps(h.conn, "vxlan.way", ls, steps), ErrForeign, "one VNI and port, one device")

	want := vxlan4()
	want.Parent = "none"
	_, err = planDevice(h.conn, *want, DefaultProtocol, ls)
	require.ErrorIs(t, err, ErrNoInterface)
}

// Unwanted devices of ours are found by their alias, whatever their name.
func TestStrayDevices(t *testing.T) {
	h := newDeviceHost(t)
	h.keep(vxlan4())
	h.keep(vxlan6())
	h.ip("link set dev vxlan.way down") // Linux before 6.2 renames no device that is up
	h.ip("link set dev vxlan.way name old")
	ls := h.links()
	require.Equal(t, []string{"old"}, unwantedDevices(map[string]device{"vxlan6.way": nil}, nil, DefaultProtocol, ls))
	require.Empty(t, unwantedDevices(nil, nil, DefaultProtocol+1, ls))
	require.Equal(t, []string{"old", "vxlan6.way"}, unwantedDevices(nil, nil, DefaultProtocol, ls))
	for _, name := range unwantedDevices(nil, nil, DefaultProtocol, ls) {
		require.NoError(t, runSteps(h.conn, name, ls, []deviceStep{deleteDevice(name)}))
		require.NoError(t, runSteps(h.conn, name, ls, []deviceStep{deleteDevice(name)}),
			"deleting an absent device succeeds")
	}
	require.Empty(t, unwantedDevices(nil, nil, DefaultProtocol, h.links()))
}

func TestVXLANIsValidated(t *testing.T) {
	bad := VXLAN{Name: "a/b", Parent: "c/d", VNI: 1 << 24, MAC: MAC{1}, Addresses: []netip.Prefix{{}}}
	err := bad.validate()
	require.Error(t, err)
	require.Len(t, strings.Split(err.Error(), "\n"), 7)
	require.NoError(t, vxlan4().validate())
	require.NoError(t, vxlan6().validate())
}
