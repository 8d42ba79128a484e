// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// bridgedPods is a node with a bridge. Two namespaces with ports on it have sockets of their own.
// The kernels resolve each other's addresses, by ARP and neighbour discovery.
type bridgedPods struct {
	node *netns.NS
	pods []*netns.NS
}

func (bridgedPods) addr(i, family int) netip.Addr {
	return [][]netip.Addr{
		addrs("10.99.0.254", "fd00:99::254"), workloadAddrs(0), workloadAddrs(1),
	}[i][family]
}

func newBridgedPods(t *testing.T) bridgedPods {
	t.Helper()
	b := bridgedPods{node: nstest.New(t), pods: []*netns.NS{nstest.New(t), nstest.New(t)}}
	runIP(t, b.node, "link", "add", "name", "br0", "type", "bridge", "forward_delay", "0")
	runIP(t, b.node, "link", "set", "dev", "br0", "up")
	own := func(ns *netns.NS, iface string, i int) {
		runIP(t, ns, "addr", "add", b.addr(i, 0).String()+"/24", "dev", iface)
		runIP(t, ns, "addr", "add", b.addr(i, 1).String()+"/64", "dev", iface)
	}
	own(b.node, "br0", 0)
	for i, ns := range b.pods {
		name := []string{"way1", "way2"}[i]
		_, _, err := netns.Veth(netns.End{NS: b.node, Name: name}, netns.End{NS: ns, Name: "eth0"})
		require.NoError(t, err)
		runIP(t, b.node, "link", "set", "dev", name, "master", "br0")
		own(ns, "eth0", i+1)
		for _, network := range []string{"tcp4", "tcp6"} {
			var l net.Listener
			require.NoError(t, ns.Do(func() (err error) { l, err = net.Listen(network, ":80"); return err }))
			t.Cleanup(func() { require.NoError(t, l.Close()) }) // the kernel opens connections by itself
		}
	}
	return b
}

// dials reports whether a connection opens between the node (0) and the pods.
func (b bridgedPods) dials(from, to, family int, timeout time.Duration) bool {
	ns := b.node
	if from > 0 {
		ns = b.pods[from-1]
	}
	conn := dialIn(ns, netip.Addr{}, b.addr(to, family), 80, timeout)
	if conn == nil {
		return false
	}
	_ = conn.Close()
	return true
}

// S171: pods on a bridge resolve each other's addresses and the node's. Policy decides about their
// connections, also about frames between the ports.
func TestPodsOnABridge(t *testing.T) {
	b := newBridgedPods(t)
	for _, name := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"} {
		require.NoError(t, b.node.SetSysctl("net/bridge/"+name, "1"))
	}
	d := openWith(t, b.node, nft.Config{Renderer: render.Config{Bridges: []string{"br0"}}})
	state := func() dptest.State {
		s := shop()
		delete(s.Endpoints, endpointKey("way3"))
		return s
	}
	s := state()
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), s)))
	become := func(next dptest.State) {
		require.NoError(t, d.Apply(t.Context(), dptest.Transition(s, next)))
		s = next
	}
	for family := range 2 {
		for _, way := range [][2]int{{1, 2}, {2, 1}, {0, 1}, {0, 2}} {
			require.Eventually(t, func() bool { // the kernel uses an IPv6 address only some time later
				return b.dials(way[0], way[1], family, dropTimeout)
			}, waitTimeout, time.Millisecond, "family %d, %v", family, way)
		}
	}
	next, tiers := denied(state())
	become(edit(next, "way2", func(e *dataplane.Endpoint) { e.Ingress = tiers }))
	for family := range 2 {
		require.False(t, b.dials(1, 2, family, dropTimeout), "the receiver's policy")
		require.True(t, b.dials(2, 1, family, waitTimeout))
		require.True(t, b.dials(0, 2, family, waitTimeout), "HostToEndpointAction is Accept")
	}
	next, tiers = denied(state())
	become(edit(next, "way2", func(e *dataplane.Endpoint) { e.Egress = tiers }))
	for family := range 2 {
		require.False(t, b.dials(2, 1, family, dropTimeout), "the sender's policy")
		require.True(t, b.dials(1, 2, family, waitTimeout))
	}
	next = state()
	delete(next.Endpoints, endpointKey("way1"))
	become(next)
	for family := range 2 {
		for _, way := range [][2]int{{1, 2}, {2, 1}, {0, 1}} {
			require.False(t, b.dials(way[0], way[1], family, dropTimeout), "no endpoint has the address: %v", way)
		}
		require.True(t, b.dials(0, 2, family, waitTimeout))
	}
}

// S171: a pod receives a frame with a priority tag like one without, but br_netfilter ignores such
// a frame. The table of family bridge drops it. Without that table, it bypasses policy.
func TestPriorityTagOnABridge(t *testing.T) {
	b := newBridgedPods(t)
	for _, name := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"} {
		require.NoError(t, b.node.SetSysctl("net/bridge/"+name, "1"))
	}
	d := openWith(t, b.node, nft.Config{Shared: true, Renderer: render.Config{Bridges: []string{"br0"}}})
	s, tiers := denied(shop())
	delete(s.Endpoints, endpointKey("way3"))
	s = edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = tiers })
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), s)))

	var receiver *net.UDPConn
	require.NoError(t, b.pods[1].Do(func() (err error) {
		receiver, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 5300})
		return err
	}))
	t.Cleanup(func() { require.NoError(t, receiver.Close()) })
	var links [2]netns.Link
	for i, ns := range b.pods {
		var err error
		links[i], err = ns.Link("eth0")
		require.NoError(t, err)
	}
	var fd int
	require.NoError(t, b.pods[0].Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: links[0].Index}))
	send := func(text string, tags ...[2]uint16) {
		packet := nfttest.IP(b.addr(1, 0), b.addr(2, 0), 17, nfttest.UDP(5300, 5300, []byte(text)))
		_, err := unix.Write(fd, nfttest.Ether(
			nfttest.MAC(links[1].MAC), nfttest.MAC(links[0].MAC), tags, nfttest.EtherIPv4, packet))
		require.NoError(t, err)
	}
	tag := [2]uint16{nfttest.EtherVLAN, 0}
	send("denied by policy")
	send("dropped at the port", tag)
	nstest.NFT(t, b.node, "", "delete", "table", "bridge", "wayleave")
	send("still denied by policy")
	send("past policy", tag)
	require.NoError(t, receiver.SetReadDeadline(time.Now().Add(waitTimeout)))
	text := make([]byte, 100)
	n, err := receiver.Read(text)
	require.NoError(t, err)
	require.Equal(t, "past policy", string(text[:n]))
}
