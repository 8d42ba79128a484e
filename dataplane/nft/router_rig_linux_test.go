// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// rig is a router between two namespaces, with as little else as possible. So the cost of a packet
// is the cost of the router.
//
//	client 10.1.0.1 ── in ── node ── out ── server 10.2.0.1
//
// A packet is forwarded on the thread that sends it, in order, before the sending call returns. The
// node resolves no addresses: 10.1.0.1 and 10.2.0.1 have real sockets. Packets to all other
// addresses of the two networks arrive and are dropped at once, because no interface has their MAC
// address.
type rig struct {
	node           *netns.NS
	client, server *netns.Workload
	stats          map[*netns.Workload]*netlink.Handle
	packets        map[*netns.Workload]int // sockets that send whole frames
	raw            int                     // the client's socket that sends whole packets
	// next is the MAC address to which workloads of a bridge send frames. Otherwise, they send to
	// the node.
	next     map[*netns.Workload]net.HardwareAddr
	listener int // of the server
}

// The addresses and ports of the flows that are measured.
const (
	rigSources = 64 // number of source addresses
	rigUDP     = 7777
	rigTCP     = 8080
	rigMarker  = 7 // UDP, too
)

func rigClient() netip.Addr { return netip.MustParseAddr("10.1.0.1") }

func rigServer() netip.Addr { return netip.MustParseAddr("10.2.0.1") }

// newRig makes a router with the names of its interfaces.
func newRig(tb testing.TB, in, out string) *rig {
	tb.Helper()
	r := &rig{node: nstest.New(tb), stats: map[*netns.Workload]*netlink.Handle{}, packets: map[*netns.Workload]int{}}
	router(tb, r.node)
	// Packets of the node itself would be counted as arrived.
	require.NoError(tb, r.node.SetSysctl("net/ipv6/conf/all/disable_ipv6", "1"))
	require.NoError(tb, r.node.SetSysctl("net/ipv6/conf/default/disable_ipv6", "1"))
	r.client = r.attach(tb, in, rigClient())
	r.server = r.attach(tb, out, rigServer())
	// The sockets have no timeouts: with a timeout, a signal interrupts calls that the kernel
	// otherwise restarts.
	require.NoError(tb, r.client.NS.SetSysctl("net/ipv4/tcp_syn_retries", "3"))
	r.raw = rigSocket(tb, r.client, unix.SOCK_RAW, unix.IPPROTO_RAW)
	r.listener = rigSocket(tb, r.server, unix.SOCK_STREAM, 0)
	require.NoError(tb, unix.Bind(r.listener, &unix.SockaddrInet4{Addr: rigServer().As4(), Port: rigTCP}))
	require.NoError(tb, unix.Listen(r.listener, 16))
	// No process reads: once the buffer is full, the kernel looks up the socket and discards the
	// packet.
	udp := rigSocket(tb, r.server, unix.SOCK_DGRAM, 0)
	require.NoError(tb, unix.SetsockoptInt(udp, unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
	require.NoError(tb, unix.Bind(udp, &unix.SockaddrInet4{Addr: rigServer().As4(), Port: rigUDP}))
	return r
}

// bridge makes the interfaces of both workloads ports of br0. Each sends to a MAC address behind
// the port of the other that no interface has.
func (r *rig) bridge(tb testing.TB) {
	tb.Helper()
	runIP(tb, r.node, "link", "add", "name", "br0", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
	runIP(tb, r.node, "link", "set", "dev", "br0", "up")
	require.NoError(tb, r.node.SetSysctl("net/bridge/bridge-nf-call-iptables", "1"))
	r.next = map[*netns.Workload]net.HardwareAddr{
		r.client: {2, 0, 0, 0, 0, 2}, r.server: {2, 0, 0, 0, 0, 1},
	}
	for from, to := range map[*netns.Workload]*netns.Workload{r.client: r.server, r.server: r.client} {
		runIP(tb, r.node, "link", "set", "dev", to.Host.Name, "master", "br0")
		require.NoError(tb, r.node.Do(func() error {
			return netlink.NeighSet(&netlink.Neigh{
				LinkIndex: to.Host.Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_MASTER, HardwareAddr: r.next[from],
				State: netlink.NUD_NOARP,
			})
		}))
	}
}

// rigSocket opens a socket in a workload's namespace.
func rigSocket(tb testing.TB, at *netns.Workload, typ, proto int) (fd int) {
	tb.Helper()
	require.NoError(tb, at.NS.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, typ|unix.SOCK_CLOEXEC, proto)
		return err
	}))
	tb.Cleanup(func() { require.NoError(tb, unix.Close(fd)) })
	return fd
}

// attach links a workload to the node, and routes the /24 of its address there.
func (r *rig) attach(tb testing.TB, iface string, addr netip.Addr) *netns.Workload {
	tb.Helper()
	w := nstest.NewWorkload(tb, r.node, iface, addr.String())
	require.NoError(tb, r.node.Do(func() error {
		link, err := netlink.LinkByIndex(w.Host.Index)
		if err != nil {
			return err
		}
		near := route(netip.PrefixFrom(addr, 24).Masked().Addr(), w.Host.Index)
		near.Dst.Mask = []byte{255, 255, 255, 0}
		owner := &netlink.Neigh{
			LinkIndex: w.Host.Index, IP: addr.AsSlice(), HardwareAddr: w.Link.MAC, State: netlink.NUD_PERMANENT,
		}
		return errors.Join(netlink.LinkSetARPOff(link), netlink.RouteAdd(near), netlink.NeighSet(owner))
	}))
	var fd int
	var stats *netlink.Handle
	require.NoError(tb, w.NS.Do(func() (err error) {
		if stats, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return err
		}
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	tb.Cleanup(func() {
		stats.Close()
		require.NoError(tb, unix.Close(fd))
	})
	require.NoError(tb, unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: w.Link.Index}))
	require.NoError(tb, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1))
	r.stats[w], r.packets[w] = stats, fd
	return w
}

// arrived returns the number of frames that a workload has received so far.
func (r *rig) arrived(tb testing.TB, at *netns.Workload) int {
	tb.Helper()
	link, err := r.stats[at].LinkByIndex(at.Link.Index)
	require.NoError(tb, err)
	return int(link.Attrs().Statistics.RxPackets)
}

// resetConntrack deletes all conntrack entries of the node.
func (r *rig) resetConntrack(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, r.node.Do(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) }))
}

// burst is a number of packets that are sent in few calls of the kernel.
type burst struct {
	fd     int
	data   [][]byte
	vector []unix.Iovec
	list   []mmsghdr
	to     unix.RawSockaddrInet4 // destination of a socket of the IP layer
}

// mmsghdr is struct mmsghdr of the kernel.
type mmsghdr struct {
	unix.Msghdr
	sent uint32
}

// frames returns packets that a workload's interface sends to its gateway, below the IP layer.
func (r *rig) frames(from *netns.Workload, packets []frame) *burst {
	b := &burst{fd: r.packets[from]}
	next, ok := r.next[from]
	if !ok {
		next = from.Host.MAC
	}
	header := slices.Concat(next, from.Link.MAC, []byte{0x08, 0x00})
	b.fill(packets, header)
	return b
}

// datagrams returns packets that a process of the client sends to the server's socket, through the
// IP layers of both.
func (r *rig) datagrams(packets []frame) *burst {
	b := &burst{fd: r.raw, to: unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: rigServer().As4()}}
	packets = slices.Clone(packets)
	for i := range packets {
		packets[i].dst = rigServer()
	}
	b.fill(packets, nil)
	for i := range b.list {
		b.list[i].Name, b.list[i].Namelen = (*byte)(unsafe.Pointer(&b.to)), unix.SizeofSockaddrInet4
	}
	return b
}

func (b *burst) fill(packets []frame, header []byte) {
	b.vector, b.list = make([]unix.Iovec, len(packets)), make([]mmsghdr, len(packets))
	for i, p := range packets {
		data := slices.Concat(header, p.bytes())
		b.data = append(b.data, data)
		b.vector[i].Base = &data[0]
		b.vector[i].SetLen(len(data))
		b.list[i].Iov = &b.vector[i]
		b.list[i].SetIovlen(1)
	}
}

// send sends the first count packets.
func (b *burst) send(count int) error {
	const most = 64 // number of packets in a call
	for at := 0; at < count; {
		part := b.list[at:min(at+most, count)]
		n, _, errno := unix.Syscall6(
			unix.SYS_SENDMMSG, uintptr(b.fd), uintptr(unsafe.Pointer(&part[0])), uintptr(len(part)), 0, 0, 0,
		)
		if errno != 0 && errno != unix.EINTR {
			return fmt.Errorf("send packets: %w", errno)
		}
		if errno == 0 {
			at += int(n)
		}
	}
	runtime.KeepAlive(b)
	return nil
}

// volley sends the first count frames from the client and returns the time until the same number
// has arrived at the server. Any other number fails the test.
func (r *rig) volley(tb testing.TB, b *burst, count int) time.Duration {
	tb.Helper()
	before, begin := r.arrived(tb, r.server), time.Now()
	require.NoError(tb, b.send(count))
	r.await(tb, r.server, before+count)
	return time.Since(begin)
}

// await returns once a workload has received a number of frames in total.
func (r *rig) await(tb testing.TB, at *netns.Workload, want int) {
	tb.Helper()
	for deadline := time.Now().Add(waitTimeout); ; {
		got := r.arrived(tb, at)
		if got >= want {
			require.Equal(tb, want, got, "more frames arrived than were sent")
			return
		}
		require.True(tb, time.Now().Before(deadline), "of the frames sent %d have not arrived", want-got)
	}
}

// rigFlows returns the first packets of a number of flows that policy allows.
func rigFlows(count int) (list []frame) {
	for i := range count {
		src := rigClient().As4()
		src[3] += byte(1 + i%rigSources)
		list = append(list, frame{
			src: netip.AddrFrom4(src), dst: rigServer().Next(), sport: uint16(1024 + i/rigSources), dport: rigUDP,
			proto: unix.IPPROTO_UDP, id: uint64(i),
		})
	}
	return list
}

// establish makes the flow of a burst's packet the only conntrack entry, in state established.
func (r *rig) establish(tb testing.TB, once *burst, dst netip.Addr) {
	tb.Helper()
	r.resetConntrack(tb)
	r.volley(tb, once, 1)
	f := rigFlows(1)[0]
	back := r.frames(r.server, []frame{{src: dst, dst: f.src, sport: f.dport, dport: f.sport, proto: f.proto}})
	before := r.arrived(tb, r.client)
	require.NoError(tb, back.send(1))
	r.await(tb, r.client, before+1)
}

// connects opens count connections from the client to the server, one after the other. Both sides
// close each connection as soon as it is open. The result is the time that this took.
func (r *rig) connects(tb testing.TB, count int) (took time.Duration) {
	tb.Helper()
	require.NoError(tb, r.client.NS.Do(func() error {
		pin(tb)
		begin := time.Now()
		for range count {
			if err := r.connect(); err != nil {
				return err
			}
		}
		took = time.Since(begin)
		return nil
	}))
	return took
}

// connect opens and closes one connection. The calling thread is in the namespace of the client.
func (r *rig) connect() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	err = errors.Join(
		// A reset, so that no socket stays in TIME_WAIT for a minute.
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
		unix.Connect(fd, &unix.SockaddrInet4{Addr: rigServer().As4(), Port: rigTCP}),
	)
	if err != nil {
		return errors.Join(fmt.Errorf("connect: %w", err), unix.Close(fd))
	}
	accepted, _, err := unix.Accept4(r.listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return errors.Join(fmt.Errorf("accept: %w", err), unix.Close(fd))
	}
	return errors.Join(unix.Close(fd), unix.Close(accepted))
}
