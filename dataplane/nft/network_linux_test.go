// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// network is a node that routes between three workloads behind way1, way2 and way3. Every workload
// answers TCP on ports 80 and 81 and UDP on 53.
type network struct {
	node      *netns.NS
	workloads []*netns.Workload
	running   sync.WaitGroup
	done      []*probe
	started   uint16
}

// workloadAddrs returns the IPv4 and the IPv6 address of a workload.
func workloadAddrs(i int) []netip.Addr {
	return addrs(fmt.Sprintf("10.99.0.%d", i+1), fmt.Sprintf("fd00:99::%d", i+1))
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{node: nstest.New(t)}
	require.NoError(t, n.node.SetSysctl("net/ipv4/ip_forward", "1"))
	require.NoError(t, n.node.SetSysctl("net/ipv6/conf/all/forwarding", "1"))
	for _, a := range addrs("192.0.2.1", "2001:db8::1") {
		require.NoError(t, n.node.AddAddr("lo", netip.PrefixFrom(a, a.BitLen())))
	}
	for i := range 3 {
		own := workloadAddrs(i)
		w := nstest.NewWorkload(t, n.node, fmt.Sprintf("way%d", i+1), own[0].String(), own[1].String())
		n.workloads = append(n.workloads, w)
		for _, a := range own {
			n.route(t, a, i)
		}
		n.serve(t, w)
	}
	return n
}

// route adds a route for an address to a workload.
func (n *network) route(t *testing.T, a netip.Addr, workload int) {
	t.Helper()
	w := n.workloads[workload]
	require.NoError(t, n.node.Do(func() error {
		link, err := netlink.LinkByName(w.Host.Name)
		if err != nil {
			return err
		}
		index := link.Attrs().Index
		err = netlink.NeighSet(&netlink.Neigh{
			LinkIndex: index, IP: a.AsSlice(), HardwareAddr: w.Link.MAC, State: netlink.NUD_PERMANENT,
		})
		if err != nil {
			return err
		}
		dst := &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: dst, Scope: netlink.SCOPE_LINK})
	}))
}

// serve starts the echo servers of a workload.
func (n *network) serve(t *testing.T, w *netns.Workload) {
	t.Helper()
	var servers sync.WaitGroup
	var closers []io.Closer
	for _, port := range []string{"80", "81"} {
		var listener net.Listener
		require.NoError(t, w.NS.Do(func() (err error) { listener, err = net.Listen("tcp", ":"+port); return err }))
		closers = append(closers, listener)
		servers.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				servers.Go(func() {
					_ = conn.SetDeadline(time.Now().Add(2 * waitTimeout)) // it ends also if the connection was cut
					_, _ = io.Copy(conn, conn)
					_ = conn.Close()
				})
				t.Cleanup(func() { _ = conn.Close() })
			}
		})
	}
	var packets net.PacketConn
	require.NoError(t, w.NS.Do(func() (err error) { packets, err = net.ListenPacket("udp", ":53"); return err }))
	closers = append(closers, packets)
	servers.Go(func() {
		buf := make([]byte, 64)
		for {
			size, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(buf[:size], from)
		}
	})
	t.Cleanup(func() {
		for _, c := range closers {
			require.NoError(t, c.Close())
		}
		servers.Wait()
	})
}

// dial opens a TCP connection from a workload, nil if it cannot.
func (n *network) dial(t *testing.T, from int, to netip.Addr, port uint16, timeout time.Duration) net.Conn {
	t.Helper()
	return n.dialFrom(t, from, netip.Addr{}, to, port, timeout)
}

func (n *network) dialFrom(t *testing.T, from int, source, to netip.Addr, port uint16, timeout time.Duration) net.Conn {
	t.Helper()
	return dialIn(n.workloads[from].NS, source, to, port, timeout)
}

func (n *network) dialHost(t *testing.T, to netip.Addr, port uint16, timeout time.Duration) net.Conn {
	t.Helper()
	return dialIn(n.node, netip.Addr{}, to, port, timeout)
}

func dialIn(ns *netns.NS, source, to netip.Addr, port uint16, timeout time.Duration) net.Conn {
	dialer := net.Dialer{Timeout: timeout}
	if source.IsValid() {
		dialer.LocalAddr = &net.TCPAddr{IP: source.AsSlice()}
	}
	return dialWith(ns, dialer, "tcp", to, port)
}

func dialWith(ns *netns.NS, dialer net.Dialer, network string, to netip.Addr, port uint16) (conn net.Conn) {
	_ = ns.Do(func() (err error) {
		conn, err = dialer.Dial(network, netip.AddrPortFrom(to, port).String())
		return err
	})
	return conn
}

// exchange reports whether a line is echoed over a connection.
func exchange(conn net.Conn, timeout time.Duration) bool {
	const line = "hello\n"
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if _, err := io.WriteString(conn, line); err != nil {
		return false
	}
	answer := make([]byte, len(line))
	_, err := io.ReadFull(conn, answer)
	return err == nil && string(answer) == line
}

// probe is an attempt to reach a workload from another.
type probe struct {
	from, to, family int
	protocol         policy.Protocol
	port             uint16
	dscp             policy.DSCP
	want, got        bool
	// id of a ping: each ping needs its own. Otherwise, connection tracking adds it to an allowed
	// one.
	id uint16
}

func (p *probe) String() string {
	text := fmt.Sprintf("way%d -> way%d IPv%d %s", p.from+1, p.to+1, 4+2*p.family, p.protocol)
	if p.port != 0 {
		text += " " + strconv.Itoa(int(p.port))
	}
	if p.dscp != 0 {
		text += " DSCP " + p.dscp.String()
	}
	return text
}

// packet is the first packet of the probe.
func (p *probe) packet() dptest.Packet {
	packet := dptest.Packet{
		Src: workloadAddrs(p.from)[p.family], Dst: workloadAddrs(p.to)[p.family],
		Protocol: p.protocol, SrcPort: 40000, DstPort: p.port, Header: policy.Header{DSCP: p.dscp},
		From: endpointKey(fmt.Sprintf("way%d", p.from+1)), To: endpointKey(fmt.Sprintf("way%d", p.to+1)),
	}
	switch p.protocol {
	case policy.ProtocolICMP:
		packet.ICMPType = 8
	case policy.ProtocolICMPv6:
		packet.ICMPType = 128
	}
	return packet
}

// probes returns all probes between two different workloads.
func (n *network) probes() []*probe {
	var all []*probe
	for from := range n.workloads {
		for to := range n.workloads {
			if from == to {
				continue
			}
			for family, ping := range []policy.Protocol{policy.ProtocolICMP, policy.ProtocolICMPv6} {
				all = append(all,
					&probe{from: from, to: to, family: family, protocol: policy.ProtocolTCP, port: 80},
					&probe{from: from, to: to, family: family, protocol: policy.ProtocolTCP, port: 81},
					&probe{from: from, to: to, family: family, protocol: policy.ProtocolUDP, port: 53},
					&probe{from: from, to: to, family: family, protocol: ping})
			}
		}
	}
	return all
}

// start runs the probe in the background. Its timeout is waitTimeout if the probe is expected to
// pass, otherwise dropTimeout.
func (n *network) start(p *probe) {
	timeout := dropTimeout
	if p.want {
		timeout = waitTimeout
	}
	n.started++
	p.id = n.started
	n.done = append(n.done, p)
	n.running.Go(func() { p.got = p.run(n.workloads[p.from].NS, timeout) })
}

// finish waits for the probes that were started and returns them.
func (n *network) finish() []*probe {
	n.running.Wait()
	done := n.done
	n.done = nil
	return done
}

func (p *probe) run(ns *netns.NS, timeout time.Duration) bool {
	target := workloadAddrs(p.to)[p.family]
	var conn net.Conn
	switch p.protocol {
	case policy.ProtocolTCP:
		conn = dialWith(ns, net.Dialer{Timeout: timeout, Control: p.setDSCP}, "tcp", target, p.port)
	case policy.ProtocolUDP:
		// Each probe has its own source port: a probe on a used one would belong to an established
		// connection.
		local := &net.UDPAddr{Port: 10_000 + int(p.id)%20_000}
		conn = dialWith(ns, net.Dialer{Control: p.setDSCP, LocalAddr: local}, "udp", target, p.port)
	default:
		return ping(ns, net.ListenConfig{Control: p.setDSCP}, target, p.id, timeout)
	}
	if conn == nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	return exchange(conn, timeout)
}

// setDSCP gives a socket the probe's code point, as applications do.
func (p *probe) setDSCP(_, _ string, c syscall.RawConn) error {
	level, option := unix.IPPROTO_IP, unix.IP_TOS
	if p.family == 1 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	var failed error
	err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, int(p.dscp)<<2) })
	return errors.Join(err, failed)
}

// ping reports whether an echo request is answered.
func ping(ns *netns.NS, listen net.ListenConfig, target netip.Addr, id uint16, timeout time.Duration) bool {
	network, request, reply := "ip4:icmp", byte(8), byte(0)
	if target.Is6() {
		network, request, reply = "ip6:ipv6-icmp", 128, 129
	}
	var conn net.PacketConn
	if err := ns.Do(
		func() (err error) { conn, err = listen.ListenPacket(context.Background(), network, ""); return err },
	); err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	packet := []byte{request, 0, 0, 0, 0, 0, 0, 1} // type, code, checksum, identifier, sequence
	binary.BigEndian.PutUint16(packet[4:], id)
	if target.Is4() { // The kernel computes the checksum for IPv6.
		binary.BigEndian.PutUint16(packet[2:], checksum(packet))
	}
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if _, err := conn.WriteTo(packet, &net.IPAddr{IP: target.AsSlice()}); err != nil {
		return false
	}
	answer := make([]byte, 128)
	for {
		size, _, err := conn.ReadFrom(answer)
		if err != nil {
			return false
		}
		if size >= 8 && answer[0] == reply && string(answer[4:8]) == string(packet[4:8]) {
			return true
		}
	}
}

// checksum returns the internet checksum of an even number of bytes, whose checksum field is zero.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
