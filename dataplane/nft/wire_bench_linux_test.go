// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// wire is a node whose interfaces all lead to one namespace. There, tests send whole packets, and
// see which packets arrive, and from which interface of the node. The node's own processes are raw
// sockets.
//
//	peers ── wl0 ──┐
//	peers ── wl1 ──┤ node ── raw sockets
//	peers ── eth0 ─┘
//	peers ── relay ── peers     the path of markers
//
// To detect a drop, a test sends a marker after the packet, from the same processor, which handles
// packets in order. The marker takes a path of the same length, but without policy. If it arrives
// first, the packet was dropped. So no test waits for a timeout.
type wire struct {
	node, peers *netns.NS
	netlink     *netlink.Handle
	links       map[string]wireLink // by the node's interface
	names       map[int]string      // of the node's interfaces, by the index of the peer's end
	fd          int                 // receives and sends the frames of the peers
	raw         map[rawKey]int      // sockets of the node's own processes
	routes      map[netip.Addr]string
	marker      wireLink
	last        uint64 // id
	buf         []byte
}

// wireLink has the values that are needed to send to an interface of the node.
type wireLink struct {
	peer int              // index of the peer's end
	mac  net.HardwareAddr // of the node's end
	node int              // index of the node's end
}

type rawKey struct {
	v6    bool
	proto int
}

// ownMark marks packets of the node's own processes for a test, and not the kernel's answers.
const ownMark = 0x77

// firstID is the first id. It is large, so that no packet of the kernel itself ends in an id.
const firstID = 0x77617965 << 32

// newWire makes a node with the interfaces, and with its own addresses by interface.
func newWire(t *testing.T, interfaces []string, own map[string][]netip.Addr) *wire {
	t.Helper()
	w := &wire{
		node: nstest.New(t), peers: nstest.New(t), links: map[string]wireLink{}, names: map[int]string{},
		raw:    map[rawKey]int{},
		routes: map[netip.Addr]string{}, buf: make([]byte, 4096), last: firstID,
	}
	pin(t)
	require.NoError(t, w.peers.SetSysctl("net/ipv6/conf/default/disable_ipv6", "1"))
	router(t, w.node)
	// The default is 3 s, which a busy machine exceeds.
	for _, state := range []string{"cookie_wait", "cookie_echoed", "heartbeat_sent"} {
		require.NoError(t, w.node.SetSysctl("net/netfilter/nf_conntrack_sctp_timeout_"+state, "60"))
	}
	require.NoError(
		t, w.node.Do(func() (err error) { w.netlink, err = netlink.NewHandle(unix.NETLINK_ROUTE); return err }),
	)
	t.Cleanup(w.netlink.Close)
	for _, name := range interfaces {
		w.connect(t, name)
	}
	for name, addrs := range own {
		for _, a := range addrs {
			require.NoError(t, w.node.AddAddr(name, netip.PrefixFrom(a, a.BitLen())))
		}
	}
	w.relay(t)
	w.sockets(t)
	// Drops the kernel's own answers to packets without a socket.
	load(t, w.node, `table inet quiet {
		chain output {
			type filter hook output priority -400
			meta mark != 0x77 tcp flags & rst == rst drop
			meta mark != 0x77 meta l4proto { icmp, ipv6-icmp, sctp } drop
		}
	}`)
	return w
}

// pin keeps the calling test on one processor. The thread ends with the test.
func pin(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	var all, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	for cpu := range 1024 {
		if all.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	require.NoError(t, unix.SchedSetaffinity(0, &one))
}

// router makes a namespace forward everything that has a route.
func router(t testing.TB, ns *netns.NS) {
	t.Helper()
	for _, s := range []string{
		"net/ipv4/ip_forward=1", "net/ipv6/conf/all/forwarding=1", "net/ipv4/conf/all/rp_filter=0",
		"net/ipv4/conf/default/rp_filter=0",
		"net/ipv4/conf/all/send_redirects=0", "net/ipv4/conf/default/send_redirects=0",
	} {
		name, value, _ := strings.Cut(s, "=")
		require.NoError(t, ns.SetSysctl(name, value))
	}
}

// connect gives the node an interface of the name. It resolves no neighbours.
func (w *wire) connect(t *testing.T, name string) {
	t.Helper()
	host, peer, err := netns.Veth(netns.End{NS: w.node, Name: name}, netns.End{NS: w.peers, Name: name})
	require.NoError(t, err)
	link, err := w.netlink.LinkByIndex(host.Index)
	require.NoError(t, err)
	require.NoError(t, w.netlink.LinkSetARPOff(link))
	w.links[name] = wireLink{peer: peer.Index, mac: host.MAC, node: host.Index}
	w.names[peer.Index] = name
}

// own gives the node an address, and waits until the kernel uses it: the kernel adds IPv6 addresses
// in the background.
func (w *wire) own(t *testing.T, iface, prefix string) {
	t.Helper()
	p := netip.MustParsePrefix(prefix)
	require.NoError(t, w.node.AddAddr(iface, p))
	require.Eventually(t, func() bool {
		var found []netlink.Route
		var err error
		if p.Addr().IsLinkLocalUnicast() {
			found, err = w.netlink.RouteGetWithOptions(p.Addr().AsSlice(), &netlink.RouteGetOptions{
				OifIndex: w.links[iface].node,
			})
		} else {
			found, err = w.netlink.RouteGet(p.Addr().AsSlice())
		}
		return err == nil && len(found) == 1 && found[0].Type == unix.RTN_LOCAL
	}, waitTimeout, time.Millisecond)
}

// disconnect deletes an interface of the node, and the routes through it.
func (w *wire) disconnect(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, w.node.DeleteLink(name))
	delete(w.names, w.links[name].peer)
	delete(w.links, name)
	for a, to := range w.routes {
		if to == name {
			delete(w.routes, a)
		}
	}
}

// relay makes the path of markers.
func (w *wire) relay(t *testing.T) {
	t.Helper()
	ns := nstest.New(t)
	router(t, ns)
	in, from, err := netns.Veth(netns.End{NS: ns, Name: "in"}, netns.End{NS: w.peers, Name: "marker-in"})
	require.NoError(t, err)
	_, _, err = netns.Veth(netns.End{NS: ns, Name: "out"}, netns.End{NS: w.peers, Name: "marker-out"})
	require.NoError(t, err)
	require.NoError(t, ns.Do(func() error {
		out, err := netlink.LinkByName("out")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetARPOff(out), netlink.RouteAdd(route(sentinelAddr(), out.Attrs().Index)))
	}))
	w.marker = wireLink{peer: from.Index, mac: in.MAC}
}

func route(a netip.Addr, index int) *netlink.Route {
	dst := &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
	return &netlink.Route{LinkIndex: index, Dst: dst, Scope: netlink.SCOPE_LINK}
}

// sockets opens the sockets of the peers and of the node's own processes.
func (w *wire) sockets(t *testing.T) {
	t.Helper()
	open := func(ns *netns.NS, domain, typ, proto int) (fd int) {
		require.NoError(t, ns.Do(func() (err error) {
			fd, err = unix.Socket(domain, typ|unix.SOCK_CLOEXEC, proto)
			return err
		}))
		t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
		require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20))
		return fd
	}
	w.fd = open(w.peers, unix.AF_PACKET, unix.SOCK_DGRAM, int(bigEndian(unix.ETH_P_ALL)))
	require.NoError(t, unix.SetsockoptInt(w.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1))
	for _, proto := range []int{1, 4, 6, 17, 58, 132, 253, unix.IPPROTO_RAW} {
		for _, v6 := range []bool{false, true} {
			domain := unix.AF_INET
			if v6 {
				domain = unix.AF_INET6
			}
			fd := open(w.node, domain, unix.SOCK_RAW, proto)
			require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, ownMark))
			w.raw[rawKey{v6, proto}] = fd
		}
	}
}

// setRoute adds a route for an address to an interface of the node.
func (w *wire) setRoute(t *testing.T, a netip.Addr, name string) {
	t.Helper()
	if w.routes[a] == name {
		return
	}
	link, ok := w.links[name]
	require.True(t, ok, "interface %s", name)
	require.NoError(t, w.netlink.RouteReplace(route(a, link.node)))
	w.routes[a] = name
}

// resetConntrack deletes all conntrack entries of the node.
func (w *wire) resetConntrack(t *testing.T) {
	t.Helper()
	require.NoError(t, w.node.Do(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) }))
}

// pass sends a frame from one place to another and reports whether it arrives there. It must not
// arrive anywhere else.
func (w *wire) pass(t *testing.T, f frame, from, to nfttest.FlowEnd) bool {
	t.Helper()
	if !to.Own {
		w.setRoute(t, to.Addr, to.Iface)
	}
	w.last++
	f.id = w.last
	require.NoError(t, w.send(f, from), "%+v", f)
	seen := w.drain(t)[f.id]
	if to.Own {
		require.Empty(t, seen, "%+v", f)
		return w.received(t, f)
	}
	if seen != "" {
		require.Equal(t, to.Iface, seen, "%+v", f)
	}
	return seen != ""
}

// volley sends many packets at once, whose routes must exist, and reports which arrive.
func (w *wire) volley(t *testing.T, flows []wireFlow) []bool {
	t.Helper()
	first := w.last + 1
	for i := range flows {
		f := flows[i].frame()
		w.last++
		f.id = w.last
		require.NoError(t, w.send(f, flows[i].from))
	}
	arrived, seen := make([]bool, len(flows)), w.drain(t)
	for i := range flows {
		if by := seen[first+uint64(i)]; by != "" {
			require.Equal(t, flows[i].to.Iface, by)
			arrived[i] = true
		}
	}
	return arrived
}

// send sends a frame from a place.
func (w *wire) send(f frame, from nfttest.FlowEnd) error {
	if from.Own {
		fd := w.raw[rawKey{f.dst.Is6(), unix.IPPROTO_RAW}]
		var to unix.Sockaddr = &unix.SockaddrInet6{Addr: f.dst.As16()}
		if f.dst.Is4() {
			to = &unix.SockaddrInet4{Addr: f.dst.As4()}
		}
		err := unix.Sendto(fd, f.bytes(), 0, to)
		if errors.Is(err, unix.EPERM) { // the kernel's error if a rule of the output hook drops
			err = nil
		}
		return err
	}
	return w.put(w.links[from.Iface], f)
}

func (w *wire) put(link wireLink, f frame) error { return w.putRaw(link, f.bytes()) }

// putRaw sends a packet with any content.
func (w *wire) putRaw(link wireLink, packet []byte) error {
	protocol := uint16(unix.ETH_P_IP)
	if packet[0]>>4 == 6 {
		protocol = unix.ETH_P_IPV6
	}
	to := &unix.SockaddrLinklayer{Protocol: bigEndian(protocol), Ifindex: link.peer, Halen: 6}
	copy(to.Addr[:], link.mac)
	return unix.Sendto(w.fd, packet, 0, to)
}

// drain waits until all sent packets have arrived or were dropped. It returns the node's interface
// from which each packet arrived.
func (w *wire) drain(t *testing.T) map[uint64]string {
	t.Helper()
	w.last++
	last, seen := w.last, map[uint64]string{}
	mark := frame{src: netip.MustParseAddr("198.51.100.77"), dst: sentinelAddr(), proto: 253, id: last}
	require.NoError(t, w.put(w.marker, mark))
	for {
		size, from, err := unix.Recvfrom(w.fd, w.buf, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
			ready, err := unix.Poll(fds, int(waitTimeout.Milliseconds()))
			require.True(t, ready > 0 || errors.Is(err, unix.EINTR), "the marker arrives")
			continue
		}
		require.NoError(t, err)
		id := idOf(w.buf[:size])
		if id == last {
			return seen
		}
		seen[id] = w.names[from.(*unix.SockaddrLinklayer).Ifindex]
	}
}

// received reports whether the node's own processes have received the frame.
func (w *wire) received(t *testing.T, f frame) bool {
	t.Helper()
	fd := w.raw[rawKey{f.dst.Is6(), int(f.proto)}]
	for found := false; ; {
		size, _, err := unix.Recvfrom(fd, w.buf, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			return found
		}
		require.NoError(t, err)
		found = found || idOf(w.buf[:size]) == f.id
	}
}
