// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// TestPacketsInKernel sends the packets of every recorded case as real ones, from a neighbour of
// the node to the workload and in the other direction. Packets that no router forwards (multicast
// and loopback) are only simulated.
//
// To detect a drop, the same processor then sends a second packet, which bypasses policy and cannot
// overtake the first. The second packet arrives, and the dropped one does not.
func TestPacketsInKernel(t *testing.T) { nfttest.EachFormInParallel(t, testPacketsInKernel) }

func testPacketsInKernel(t *testing.T, classes render.ClassesConfig) {
	b := newBench(t)
	sent := 0
	for _, c := range packetCases(t) {
		table, errs := nfttest.Rendered(
			t, render.Config{
				Classes: classes, Host: policy.HostConfig{KeepInvalid: true},
			}, nfttest.Transition(c.State(t)),
		)
		require.Empty(t, errs, c.Name)
		require.NoError(t, write(b.node, table), c.Name)
		for i, p := range c.Packets {
			if !forwardable(p.Src) || !forwardable(p.Dst) {
				continue
			}
			transport := make([]byte, 8)
			switch policy.Protocol(p.Proto) {
			case policy.ProtocolTCP, policy.ProtocolUDP:
				transport = nfttest.Ports(p.SrcPort, p.DstPort)
			case policy.ProtocolICMP, policy.ProtocolICMPv6:
				transport = nfttest.ICMPHeader(p.ICMPType, p.ICMPCode)
			}
			packet := rawPacket(p.Src, p.Dst, p.Proto, transport)
			for _, way := range []struct {
				name     string
				from, to *tap
			}{{"ingress", b.outside, b.workload}, {"egress", b.workload, b.outside}} {
				got := b.passes(t, packet, way.from, way.to)
				require.Equal(t, p.Verdict == "allow", got, "%s %s packet %d\n%s", c.Name, way.name, i, table)
				sent++
			}
		}
	}
	require.Greater(t, sent, 300)
}

func packetCases(t *testing.T) (cases []nfttest.PacketCase) {
	t.Helper()
	data, err := os.ReadFile("render/testdata/packets.jsonl")
	require.NoError(t, err)
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var c nfttest.PacketCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		cases = append(cases, c)
	}
	return cases
}

func forwardable(a netip.Addr) bool { return a.IsGlobalUnicast() }

// bench is a node between a workload and two neighbours. One of the neighbours receives only
// sentinels.
type bench struct {
	node                        *netns.NS
	workload, outside, sentinel *tap
	sequence                    uint64
}

// tap is a packet socket on the only interface of a namespace.
type tap struct {
	fd    int
	index int              // index of the interface
	host  net.HardwareAddr // address of the node's end
	name  string           // name of the node's end
	link  *netns.Workload
}

// sentinelAddr is an address behind the second neighbour.
func sentinelAddr() netip.Addr { return netip.MustParseAddr("198.51.100.9") }

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{node: nstest.New(t)}
	require.NoError(t, b.node.SetSysctl("net/ipv4/ip_forward", "1"))
	require.NoError(t, b.node.SetSysctl("net/ipv6/conf/all/forwarding", "1"))
	b.workload, b.outside, b.sentinel = b.tap(t, "way1"), b.tap(t, "eth0"), b.tap(t, "eth1")
	b.route(t, b.sentinel, sentinelAddr(), 32)
	return b
}

// tap links a namespace without addresses to the node. Its packet socket receives all packets.
func (b *bench) tap(t *testing.T, name string) *tap {
	t.Helper()
	w := nstest.NewWorkload(t, b.node, name)
	p := &tap{host: w.Host.MAC, name: name, link: w}
	require.NoError(t, w.NS.Do(func() error {
		link, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		p.index = link.Index
		p.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(bigEndian(unix.ETH_P_ALL)))
		return err
	}))
	t.Cleanup(func() { require.NoError(t, unix.Close(p.fd)) })
	return p
}

// route adds a route for a prefix to a tap.
func (b *bench) route(t *testing.T, to *tap, a netip.Addr, bits int) {
	t.Helper()
	require.NoError(t, b.node.Do(func() error {
		link, err := netlink.LinkByName(to.name)
		if err != nil {
			return err
		}
		dst := &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}
		return netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK})
	}))
}

// passes reports whether the node forwards the packet.
func (b *bench) passes(t *testing.T, packet []byte, from, to *tap) bool {
	t.Helper()
	_, dst := addresses(packet)
	b.route(t, to, dst, dst.BitLen())
	b.reset(t, to, dst)
	b.sequence++
	mark := binary.BigEndian.AppendUint64(nil, b.sequence)
	last := rawPacket(netip.MustParseAddr("198.51.100.1"), sentinelAddr(), 253, mark)

	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // The thread ends with the goroutine, because it is bound to one processor.
		var one unix.CPUSet
		err := unix.SchedGetaffinity(0, &one)
		for cpu, found := 0, false; cpu < 1024 && err == nil; cpu++ {
			if one.IsSet(cpu) && found {
				one.Clear(cpu)
			}
			found = found || one.IsSet(cpu)
		}
		if err == nil {
			err = unix.SchedSetaffinity(0, &one)
		}
		if err == nil {
			err = from.send(packet)
		}
		if err == nil {
			err = b.outside.send(last)
		}
		failed <- err
	}()
	require.NoError(t, <-failed)
	require.True(t, b.sentinel.receive(t, last, true), "the sentinel arrives")
	return to.receive(t, packet, false)
}

// reset deletes the node's conntrack entries and adds a neighbour entry. So the next packet is the
// first of its flow, and the node can send it.
func (b *bench) reset(t *testing.T, to *tap, dst netip.Addr) {
	t.Helper()
	require.NoError(t, b.node.Do(func() error {
		if err := netlink.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
			return fmt.Errorf("flush conntrack: %w", err)
		}
		for _, hop := range []struct {
			to   *tap
			addr netip.Addr
		}{{to, dst}, {b.sentinel, sentinelAddr()}} {
			link, err := netlink.LinkByName(hop.to.name)
			if err != nil {
				return err
			}
			err = netlink.NeighSet(&netlink.Neigh{
				LinkIndex: link.Attrs().Index, IP: hop.addr.AsSlice(), HardwareAddr: hop.to.link.Link.MAC,
				State: netlink.NUD_PERMANENT,
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

func (p *tap) send(packet []byte) error {
	protocol := uint16(unix.ETH_P_IP)
	if packet[0]>>4 == 6 {
		protocol = unix.ETH_P_IPV6
	}
	to := &unix.SockaddrLinklayer{Protocol: bigEndian(protocol), Ifindex: p.index, Halen: 6}
	copy(to.Addr[:], p.host)
	return unix.Sendto(p.fd, packet, 0, to)
}

// receive reports whether the packet was received so far or, if wait is set, is received in time.
func (p *tap) receive(t *testing.T, packet []byte, wait bool) bool {
	t.Helper()
	buf := make([]byte, 2048)
	for {
		timeout := 0
		if wait {
			timeout = int(waitTimeout.Milliseconds())
		}
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, timeout)
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		if ready == 0 {
			return false
		}
		size, from, err := unix.Recvfrom(p.fd, buf, unix.MSG_DONTWAIT)
		require.NoError(t, err)
		if from.(*unix.SockaddrLinklayer).Pkttype != unix.PACKET_OUTGOING && samePacket(buf[:size], packet) {
			return true
		}
	}
}

// samePacket compares the fields that forwarding does not change.
func samePacket(got, sent []byte) bool {
	if len(got) != len(sent) || got[0]>>4 != sent[0]>>4 {
		return false
	}
	if got[0]>>4 == 4 {
		return got[9] == sent[9] && bytes.Equal(got[12:], sent[12:])
	}
	return got[6] == sent[6] && bytes.Equal(got[8:], sent[8:])
}

// rawPacket returns a packet with an IP header before the transport header.
func rawPacket(src, dst netip.Addr, protocol uint8, transport []byte) []byte {
	const ttl = 64
	var p []byte
	if src.Is4() {
		p = make([]byte, 12)
		p[0], p[8], p[9] = 0x45, ttl, protocol
		binary.BigEndian.PutUint16(p[2:], uint16(20+len(transport)))
	} else {
		p = make([]byte, 8)
		p[0], p[6], p[7] = 0x60, protocol, ttl
		binary.BigEndian.PutUint16(p[4:], uint16(len(transport)))
	}
	p = append(append(p, src.AsSlice()...), dst.AsSlice()...)
	if src.Is4() {
		binary.BigEndian.PutUint16(p[10:], checksum(p))
	}
	return append(p, transport...)
}

func addresses(packet []byte) (src, dst netip.Addr) {
	at, size := 12, 4
	if packet[0]>>4 == 6 {
		at, size = 8, 16
	}
	src, _ = netip.AddrFromSlice(packet[at : at+size])
	dst, _ = netip.AddrFromSlice(packet[at+size : at+2*size])
	return src, dst
}

func bigEndian(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}
