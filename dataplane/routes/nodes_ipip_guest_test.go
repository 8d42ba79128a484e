// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package routes_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

// These tests need the kernel's module ipip; scripts/test-kernels runs them.

// newIPIPCluster makes a node for each of the subnets and an IPv4 pool with the IPIP mode, and
// programs all. Each node has a pod with the name of the node.
func newIPIPCluster(t *testing.T, mode policy.EncapMode, subnets ...int) *cluster {
	c := newUnderlay(t, subnets...)
	c.startIPIP(mode)
	return c
}

// startIPIP gives each node an address of its IP-in-IP device, and all resources.
func (c *cluster) startIPIP(mode policy.EncapMode) {
	c.Helper()
	for i, n := range c.nodes {
		n.world.IPv4IPIPTunnelAddr, n.world.IPv4VXLANTunnelAddr = n.world.IPv4VXLANTunnelAddr, netip.Addr{}
		n.world.IPv6VXLANTunnelAddr = netip.Addr{}
		c.addPod(n.name, n, fmt.Sprintf("10.65.%d.1", i+1))
	}
	for _, n := range c.nodes {
		n.update(c.ipipResources(mode)...)
		n.graph.InSync()
	}
	c.flush()
}

// ipipResources returns the resources of the cluster, except the pods.
func (c *cluster) ipipResources(mode policy.EncapMode) []policy.Resource {
	list := []policy.Resource{
		&policy.IPPool{Name: "four", CIDR: prefix("10.65.0.0/16"), IPIPMode: mode},
	}
	for i, n := range c.nodes {
		list = append(list, &n.world, blocks(i + 1)[0])
	}
	return list
}

// capture records the IPv4 packets of an interface in the network between the nodes.
type capture struct{ *nstest.Capture }

func (c *cluster) capture(dev string) capture {
	c.Helper()
	return capture{nstest.NewCapture(c.T, c.underlay, dev)}
}

// packets returns the different packets since the last call, sorted, as
// "ipip DF 192.0.2.1 > 192.0.2.2: icmp DF 10.65.1.1 > 10.65.2.1".
func (p capture) packets() (list []string) {
	for _, b := range p.Packets() {
		if b[0]>>4 == 4 {
			list = append(list, packetText(b))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func packetText(b []byte) string {
	protocol, inner := map[byte]string{1: "icmp", 4: "ipip", 17: "udp"}[b[9]], ""
	if b[9] == 4 {
		inner = ": " + packetText(b[4*int(b[0]&15):])
	}
	flags := ""
	if b[6]&0x40 != 0 {
		flags = "DF "
	}
	if b[6]&0x3f|b[7] != 0 {
		flags += "fragment "
		inner = ""
	}
	src, _ := netip.AddrFromSlice(b[12:16])
	dst, _ := netip.AddrFromSlice(b[16:20])
	return fmt.Sprintf("%s %s%s > %s%s", protocol, flags, src, dst, inner)
}

// ipipTunnelled checks that the packets from the first node's pod to that of another are sent
// through the IP-in-IP devices, and checks their maximum size.
func (c *cluster) ipipTunnelled(other int) {
	c.Helper()
	from, to := c.pods["n1"], c.pods[c.nodes[other].name].Addresses[0]
	own, peer := c.nodes[0].world.Addresses[0].Addr(), c.nodes[other].world.Addresses[0].Addr()
	require.Equal(c, fmt.Sprintf("ipip.way %s", peer), c.nodes[0].way(to.String()))
	wire := c.capture("to-n1")
	require.NoError(c, ping(from.NS, to, 1480), "and no fragments")
	require.Equal(c, []string{
		fmt.Sprintf("ipip %s > %s: icmp %s > %s", peer, own, to, from.Addresses[0]),
		fmt.Sprintf("ipip DF %s > %s: icmp DF %s > %s", own, peer, from.Addresses[0], to),
	}, wire.packets())
	require.ErrorIs(c, ping(from.NS, to, 1481), errTooBig, "and the sender gets an error")
	require.Empty(c, wire.packets())
}

// S164: all packets between nodes are encapsulated, whatever their subnet.
func TestIPIPRoutes(t *testing.T) {
	c := newIPIPCluster(t, policy.EncapAlways, 2, 2, 3)
	c.reach()
	c.ipipTunnelled(1)
	c.ipipTunnelled(2)

	// The route of a removed node is removed.
	n1 := c.nodes[0]
	require.Len(t, n1.list("10.65.3.0/26", "ip", "route"), 1)
	c.remove(&c.nodes[2].world)
	require.NoError(t, n1.dp.Apply(t.Context(), n1.graph.Flush()))
	require.Empty(t, n1.list("10.65.3.0", "ip", "route"))
	require.Empty(t, n1.list("ipip.way", "ip", "neigh"), "the routes suffice")
}

// S161: nodes of one subnet reach each other directly, others by IP in IP.
func TestIPIPCrossSubnetRoutes(t *testing.T) {
	c := newIPIPCluster(t, policy.EncapCrossSubnet, 2, 2, 3)
	c.reach()
	require.Equal(t, "eth0 192.0.2.2", c.nodes[0].way("10.65.2.1"))
	wire := c.capture("to-n1")
	require.NoError(t, ping(c.pods["n1"].NS, addr("10.65.2.1"), 1500))
	require.Equal(t, []string{"icmp 10.65.2.1 > 10.65.1.1", "icmp DF 10.65.1.1 > 10.65.2.1"}, wire.packets())
	c.ipipTunnelled(2)
}

// If the path has a smaller MTU than the interfaces of the nodes, senders that forbid fragments get
// an error. The packets of others are fragmented.
func TestIPIPPathMTU(t *testing.T) {
	c := newIPIPCluster(t, policy.EncapAlways, 2, 3)
	c.reach()
	from, to := c.pods["n1"].NS, addr("10.65.2.1")
	c.ip(c.underlay, "link set dev subnet3 mtu 1400")
	wire := c.capture("to-n2")
	require.NoError(t, pingWith(from, to, 1480, unix.IP_PMTUDISC_DONT))
	require.Contains(t, wire.packets(), "ipip fragment 192.0.2.1 > 192.0.3.2")
	require.ErrorIs(t, ping(from, to, 1480), errTooBig)
	require.ErrorIs(t, ping(from, to, 1381), errTooBig)
	require.NoError(t, ping(from, to, 1380))
}

// Pods of a pool with VXLAN and pods of a pool with IP in IP reach each other. This is also so if a
// node has one address for both devices.
func TestIPIPBesideVXLAN(t *testing.T) {
	c := newIPIPCluster(t, policy.EncapAlways, 2, 3)
	for i, n := range c.nodes {
		n.world.IPv4VXLANTunnelAddr = n.world.IPv4IPIPTunnelAddr
		c.set(&n.world, &policy.IPPool{Name: "vx", CIDR: prefix("10.67.0.0/16"), VXLANMode: policy.EncapAlways},
			&policy.Block{CIDR: prefix(fmt.Sprintf("10.67.%d.0/26", i+1)), Node: n.name})
		c.addPod("vx-"+n.name, n, fmt.Sprintf("10.67.%d.1", i+1))
	}
	c.flush()
	c.reach()
	require.Equal(t, "ipip.way 192.0.3.2", c.nodes[0].way("10.65.2.1"))
	require.Equal(t, "vxlan.way 10.65.2.0", c.nodes[0].way("10.67.2.1"))
}

// Watch restores every object of a tunnel that another process removes or changes.
func TestWatchRepairsIPIP(t *testing.T) {
	c := newIPIPCluster(t, policy.EncapAlways, 2, 3)
	n := c.nodes[0]
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.dp.Watch(ctx, func(dataplane.Drift) {}) }()
	defer func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}()
	m := n.listen(rtnl.GroupLinks, rtnl.GroupAddresses, rtnl.GroupRoutes)
	whole := func() (lines []string) {
		device := n.list("", "ip", "-d", "addr", "show", "ipip.way")
		for _, l := range append(n.list("ipip", "ip", "route"), device...) {
			_, rest, isLink := strings.Cut(l, ": ipip.way") // after the index
			if lines = append(lines, l); isLink {
				lines[len(lines)-1] = rest
			}
		}
		return lines
	}
	before := whole()
	for _, command := range []string{
		"link del dev ipip.way", "link set dev ipip.way down", "addr del 10.65.1.0/32 dev ipip.way",
		"route del 10.65.2.0/26", "link set dev ipip.way mtu 1200",
		"link set dev ipip.way type ipip local 192.0.2.9 ttl inherit nopmtudisc",
		"link set dev ipip.way type ipip local 192.0.2.1 ttl 5 pmtudisc",
	} {
		n.list("", "ip", strings.Fields(command)...)
		n.await(m, command, func() bool { return slices.Equal(before, whole()) })
	}
	c.reach()
	n.ip("link set dev eth0 mtu 1400")
	n.await(m, "the MTU", func() bool { return len(n.list("mtu 1380", "ip", "link", "show", "ipip.way")) == 1 })
}

// A node that starts again writes nothing. The kernel's own device never changes.
func TestIPIPNodeStartsAgain(t *testing.T) {
	c := newIPIPCluster(t, policy.EncapAlways, 2, 3)
	n := c.nodes[0]
	fallback := n.ip("-d link show tunl0")
	m := n.listen(rtnl.GroupLinks, rtnl.GroupAddresses, rtnl.GroupRoutes)
	n.restart()
	require.NoError(t, n.dp.Apply(t.Context(), n.graph.Snapshot()))
	require.NoError(t, n.dp.Resync(t.Context()))
	var changes []string
	_, err := m.Poll(func(e *rtnl.Event) {
		if e.Group != rtnl.GroupRoutes || e.Route.Protocol != unix.RTPROT_KERNEL { // added in the background
			changes = append(changes, fmt.Sprintf("%+v", *e))
		}
	})
	require.NoError(t, err)
	require.Empty(t, changes)
	c.reach()

	n.ip("link del dev ipip.way")
	require.NoError(t, n.dp.Resync(t.Context()))
	c.reach()
	plan, err := n.dp.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Contains(t, plan, "ip link del dev ipip.way\n")
	require.NoError(t, n.dp.Teardown(t.Context()))
	require.Empty(t, n.list("ipip.way", "ip", "-o", "link"))
	require.Empty(t, n.list("proto 219", "ip", "route"))

	// A process was killed before it gave the device its alias.
	n.ip("link add ipip.way type ipip mode ipip local 192.0.2.1")
	n.restart()
	require.NoError(t, n.dp.Teardown(t.Context()))
	require.Empty(t, n.list("ipip.way", "ip", "-o", "link"))
	require.Equal(t, fallback, n.ip("-d link show tunl0"))
}

// A device with another name replaces the device of an earlier process, which has the local
// address.
func TestIPIPDeviceGetsAnotherName(t *testing.T) {
	n := newNetworkNode(t, routes.Config{IPIP: routes.IPIPConfig{Device: "former"}})
	n.must(ipipEvents()...)
	n.cfg.IPIP.Device = ""
	n.restart()
	n.must(ipipEvents()...)
	require.Contains(t, n.ours("main"), "10.66.2.0/26 via 192.0.3.2 dev ipip.way onlink")
	require.NotContains(t, n.ip("link"), "former")
}

// A foreign device with this node's address is a fault of the node, and is not changed.
func TestIPIPDeviceOfAnother(t *testing.T) {
	n := newNetworkNode(t, routes.Config{})
	n.ip("link add theirs type ipip local 192.0.2.1")
	before := n.ip("-d link show theirs")
	err := n.apply(ipipEvents()...)
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general)
	require.Len(t, objects, 2)
	for _, name := range []string{"here", "there"} {
		require.ErrorIs(t, objects[nodeKey(name)], routes.ErrForeign)
		require.ErrorContains(t, objects[nodeKey(name)], "a device with the name or the parameters of ipip.way")
	}
	require.Equal(t, before, n.ip("-d link show theirs"))
	n.ip("link del dev theirs")
	n.must()
	require.Contains(t, n.ours("main"), "10.66.2.0/26 via 192.0.3.2 dev ipip.way onlink")
}

// A missing module is a fault until it is loaded.
func TestIPIPRecoversWhenModuleIsLoaded(t *testing.T) {
	const helper = "/proc/sys/kernel/modprobe" // the program with which the kernel loads modules
	former, err := os.ReadFile(helper)
	require.NoError(t, err)
	run := func(command ...string) {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		require.NoError(t, err, "%s: %s", command, out)
	}
	require.NoError(t, os.WriteFile(helper, []byte("/bin/false"), 0))
	t.Cleanup(func() {
		require.NoError(t, os.WriteFile(helper, former, 0))
		run("modprobe", "ipip")
	})
	run("modprobe", "-r", "ipip")

	n := newNetworkNode(t, routes.Config{})
	n.wantNoIPIP(n.apply(ipipEvents()...))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.dp.Watch(ctx, func(dataplane.Drift) {}) }()
	defer func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}()
	m := n.listen(rtnl.GroupLinks, rtnl.GroupRoutes)
	run("modprobe", "ipip")
	n.await(m, "the route", func() bool {
		return slices.Contains(n.ours("main"), "10.66.2.0/26 via 192.0.3.2 dev ipip.way onlink")
	})
}
