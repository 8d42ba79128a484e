// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

// S158, S159: between nodes of one subnet, packets are not encapsulated.
func TestDirectRoutes(t *testing.T) {
	c := newCluster(t, policy.EncapNever, 2, 2, 2)
	c.reach()
	require.Equal(t, "eth0 192.0.2.2", c.nodes[0].way("10.65.2.1"))
	require.Equal(t, "eth0 2001:db8:2::2", c.nodes[0].way("fd65::2:1"))
	p := c.pods["n1"]
	require.NoError(t, ping(p.NS, netip.MustParseAddr("10.65.3.1"), 1500), "nothing is added")
	require.NoError(t, ping(p.NS, netip.MustParseAddr("fd65::3:1"), 1500))
	require.Empty(t, c.nodes[0].list("vxlan", "ip", "-o", "link"))
	c.removeNode("n3")
}

// S164: all packets between nodes are encapsulated, whatever their subnet.
func TestVXLANRoutes(t *testing.T) {
	c := newCluster(t, policy.EncapAlways, 2, 2, 3)
	c.reach()
	c.tunnelled(1)
	c.tunnelled(2)
	c.removeNode("n3")
	for _, n := range c.nodes[:2] {
		require.Len(t, n.list("dst 192.0.2.", "bridge", "fdb"), 1)
		require.Empty(t, n.list("dst 192.0.3.", "bridge", "fdb"))
	}
}

// S161: nodes of one subnet reach each other directly, others by VXLAN.
func TestCrossSubnetRoutes(t *testing.T) {
	c := newCluster(t, policy.EncapCrossSubnet, 2, 2, 3)
	c.reach()
	n1 := c.nodes[0]
	require.Equal(t, "eth0 192.0.2.2", n1.way("10.65.2.1"))
	require.Equal(t, "eth0 2001:db8:2::2", n1.way("fd65::2:1"))
	c.tunnelled(2)

	// An update moves the node into the subnet.
	moved := c.nodes[2].world
	moved.Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24"), netip.MustParsePrefix("2001:db8:2::2/64")}
	c.remove(&c.nodes[1].world)
	c.set(&moved)
	require.NoError(t, n1.dp.Apply(t.Context(), n1.graph.Flush()))
	require.Equal(t, "eth0 192.0.2.2", n1.way("10.65.3.1"))
	require.Equal(t, "eth0 2001:db8:2::2", n1.way("fd65::3:1"))
}

// tunnelled checks that packets from the first node to the pod of another are sent through the
// VXLAN devices, and checks their maximum size.
func (c *cluster) tunnelled(other int) {
	c.Helper()
	from := c.pods["n1"]
	for _, to := range c.pods[c.nodes[other].name].Addresses {
		fits, device, gateway := 1450, "vxlan.way", c.nodes[other].world.IPv4VXLANTunnelAddr
		if to.Is6() {
			fits, device, gateway = 1430, "vxlan6.way", c.nodes[other].world.IPv6VXLANTunnelAddr
		}
		require.Equal(c, fmt.Sprintf("%s %s", device, gateway), c.nodes[0].way(to.String()))
		require.NoError(c, ping(from.NS, to, fits))
		require.ErrorIs(c, ping(from.NS, to, fits+1), errTooBig, "and the sender gets an error")
	}
}

// removeNode removes a node, checks that its routes and entries are removed, and that the others
// still reach each other.
func (c *cluster) removeNode(name string) {
	c.Helper()
	at := slices.IndexFunc(c.nodes, func(n *clusterNode) bool { return n.name == name })
	gone := c.nodes[at]
	four, six := fmt.Sprintf("10.65.%d.0", at+1), fmt.Sprintf("fd65::%d:0", at+1)
	for _, n := range c.nodes {
		if n != gone {
			require.Len(c, slices.Concat(n.list(four+"/26", "ip", "-4", "route"),
				n.list(six+"/122", "ip", "-6", "route")), 2, n.name)
		}
	}
	c.nodes = slices.Delete(c.nodes, at, at+1)
	delete(c.pods, name)
	c.remove(append(blocks(at+1), &gone.world, &policy.WorkloadEndpoint{Namespace: "shop", Name: name})...)
	c.flush()
	for _, n := range c.nodes {
		for _, a := range []string{four, six} {
			require.Empty(c, n.list(a, "ip", "-4", "route"), n.name)
			require.Empty(c, n.list(a, "ip", "-6", "route"), n.name)
			require.Empty(c, n.list(a+" ", "ip", "neigh"), n.name)
		}
	}
	c.reach()
}

// S158: packets to a borrowed address reach the node that borrowed it. Packets to unused addresses
// of a block are dropped.
func TestBorrowedAddress(t *testing.T) {
	c := newCluster(t, policy.EncapCrossSubnet, 2, 2, 3)
	four, six := netip.MustParseAddr("10.65.1.9"), netip.MustParseAddr("fd65::1:9")
	lend := func(borrower string) {
		for _, row := range []struct {
			block string
			lent  netip.Addr
		}{{"10.65.1.0/26", four}, {"fd65::1:0/122", six}} {
			block := &policy.Block{CIDR: netip.MustParsePrefix(row.block), Node: "n1"}
			if borrower != "" {
				block.Borrowed = []policy.BorrowedAddress{{Address: row.lent, Node: borrower}}
			}
			c.set(block)
		}
	}
	lend("n3")
	c.addPod("guest", c.nodes[2], four.String(), six.String())
	c.flush()
	c.reach()
	for _, n := range c.nodes[:2] {
		require.Equal(t, "vxlan.way 10.65.3.0", n.way(four.String()), n.name)
		require.Equal(t, "vxlan6.way fd65::3:0", n.way(six.String()), n.name)
	}
	require.Len(t, c.nodes[0].list("blackhole 10.65.1.0/26", "ip", "-4", "route"), 1)
	require.Len(t, c.nodes[0].list("blackhole fd65::1:0/122", "ip", "-6", "route"), 1)

	// When the address is returned, packets to it are dropped at the block's node.
	lend("")
	c.remove(&policy.WorkloadEndpoint{Namespace: "shop", Name: "guest"})
	delete(c.pods, "guest")
	c.flush()
	require.Empty(t, c.nodes[0].list(four.String(), "ip", "-4", "route"))
	require.Equal(t, "eth0 192.0.2.1", c.nodes[1].way(four.String()))
	c.reach()
}

// Watch restores every object of a tunnel that another process removes, and the device follows the
// underlying interface.
func TestWatchRepairsTunnel(t *testing.T) {
	c := newCluster(t, policy.EncapAlways, 2, 3)
	n := c.nodes[0]
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.dp.Watch(ctx, func(dataplane.Drift) {}) }()
	defer func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}()
	m := n.listen(rtnl.GroupLinks, rtnl.GroupAddresses, rtnl.GroupRoutes, rtnl.GroupNeighbours)
	state := func() []string {
		return slices.Concat(
			n.list("vxlan", "ip", "-4", "route"), n.list("vxlan", "ip", "-6", "route"),
			n.list("vxlan", "ip", "neigh", "show", "nud", "permanent"), n.list("dst 192.0.3.2", "bridge", "fdb"),
			n.list("dst 2001:db8:3::2", "bridge", "fdb"), n.list("global", "ip", "addr", "show", "vxlan.way"),
			n.list("global", "ip", "addr", "show", "vxlan6.way"), n.list("mtu", "ip", "link", "show", "vxlan6.way"))
	}
	index := regexp.MustCompile(`^\d+: `)
	whole := func() (lines []string) {
		for _, line := range state() {
			lines = append(lines, index.ReplaceAllString(line, ""))
		}
		slices.Sort(lines)
		return lines
	}
	before := whole()
	for _, command := range []string{
		"ip link del dev vxlan.way", "ip link del dev vxlan6.way", "ip link set dev vxlan.way down",
		"ip link set dev vxlan6.way down", "ip addr del 10.65.1.0/32 dev vxlan.way",
		"ip addr del fd65::1:0/128 dev vxlan6.way", "ip route del 10.65.2.0/26", "ip -6 route del fd65::2:0/122",
		"ip neigh del 10.65.2.0 dev vxlan.way", "ip neigh del fd65::2:0 dev vxlan6.way",
		"bridge fdb del " + fdb(n, "vxlan.way") + " dev vxlan.way dst 192.0.3.2", "ip link set dev vxlan.way mtu 1200",
		"ip link set dev vxlan.way address 02:00:00:00:00:01", "ip link set dev vxlan6.way type vxlan learning",
	} {
		args := strings.Fields(command) // a flush would not end, because Watch restores all routes at once
		n.list("", args[0], args[1:]...)
		n.await(m, command, func() bool { return slices.Equal(before, whole()) })
	}
	c.reach()

	n.ip("link set dev eth0 mtu 1400")
	n.await(m, "the MTU", func() bool { return len(n.list("mtu 1350", "ip", "link", "show", "vxlan.way")) == 1 })
	n.await(m, "the MTU", func() bool { return len(n.list("mtu 1330", "ip", "link", "show", "vxlan6.way")) == 1 })
	c.reach()
}

// fdb returns the MAC address of the only other node.
func fdb(n *clusterNode, device string) string {
	return strings.Fields(n.list("dst", "bridge", "fdb", "show", "dev", device)[0])[0]
}

// A node that starts again, or whose device another process removed, has the same state as before.
func TestNodeStartsAgain(t *testing.T) {
	c := newCluster(t, policy.EncapAlways, 2, 3)
	n := c.nodes[0]
	index, err := n.ns.Link("vxlan.way")
	require.NoError(t, err)
	n.restart()
	require.NoError(t, n.dp.Apply(t.Context(), n.graph.Snapshot()))
	again, err := n.ns.Link("vxlan.way")
	require.NoError(t, err)
	require.Equal(t, index, again, "adopted")
	c.reach()

	n.ip("link del dev vxlan.way")
	require.NoError(t, n.dp.Resync(t.Context()))
	c.reach()
	require.NoError(t, n.dp.Teardown(t.Context()))
	require.Empty(t, n.list("vxlan", "ip", "-o", "link"))
	require.Empty(t, n.list("proto 219", "ip", "route"))
}
