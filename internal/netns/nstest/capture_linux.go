// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netns"
)

// Capture records the packets of an interface, in both directions, until the test ends.
type Capture struct {
	t    testing.TB
	conn syscall.RawConn

	mu      sync.Mutex // held while packets are read
	packets [][]byte
	err     error
}

// NewCapture starts to record the packets of an interface in a namespace.
func NewCapture(t testing.TB, ns *netns.NS, name string) *Capture {
	t.Helper()
	link, err := ns.Link(name)
	require.NoError(t, err)
	fd := -1
	require.NoError(t, ns.Do(func() (err error) {
		// Without a protocol, the socket receives nothing until it is bound to the interface.
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	}))
	file := os.NewFile(uintptr(fd), "capture of "+name)
	c := &Capture{t: t}
	c.conn, err = file.SyscallConn()
	require.NoError(t, err)
	// Only root of the machine can exceed the limit. With a smaller buffer, Packets reports lost
	// packets.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}))
	var reader sync.WaitGroup
	reader.Go(func() {
		_ = c.conn.Read(func(fd uintptr) bool { // until the socket is closed
			c.read(int(fd))
			return false
		})
	})
	t.Cleanup(func() {
		require.NoError(t, file.Close())
		reader.Wait()
	})
	return c
}

// read reads the packets that have arrived.
func (c *Capture) read(fd int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	buf := make([]byte, 1<<16)
	for c.err == nil {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil:
			c.err = err
		default:
			c.packets = append(c.packets, slices.Clone(buf[:n]))
		}
	}
}

// Packets returns the packets since the last call, without link-layer headers. The test fails if
// packets were lost.
func (c *Capture) Packets() (packets [][]byte) {
	c.t.Helper()
	var stats *unix.TpacketStats
	var err error
	require.NoError(c.t, c.conn.Control(func(fd uintptr) {
		c.read(int(fd))
		stats, err = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	}))
	require.NoError(c.t, err)
	require.Zero(c.t, stats.Drops, "packets that the capture lost")
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NoError(c.t, c.err)
	packets, c.packets = c.packets, nil
	return packets
}

// TCPStarts returns the SYN packets and their answers since the last call, as texts. The text of a
// SYN packet is, for example, "10.0.0.1 > 10.0.0.2:80". The text of the answer is then "10.0.0.2:80
// > 10.0.0.1". The list is sorted, and has no text twice.
func (c *Capture) TCPStarts() (list []string) {
	c.t.Helper()
	const flags, syn, ack = 13, 0x02, 0x10
	for _, b := range c.Packets() {
		p, ok := ParseIP(b)
		if !ok || p.Protocol != unix.IPPROTO_TCP || len(p.Payload) <= flags || p.Payload[flags]&syn == 0 {
			continue
		}
		if p.Payload[flags]&ack == 0 {
			server := netip.AddrPortFrom(p.Dst, binary.BigEndian.Uint16(p.Payload[2:]))
			list = append(list, fmt.Sprintf("%s > %s", p.Src, server))
		} else {
			server := netip.AddrPortFrom(p.Src, binary.BigEndian.Uint16(p.Payload))
			list = append(list, fmt.Sprintf("%s > %s", server, p.Dst))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// IPPacket is a packet of IPv4, or one of IPv6 without extension headers.
type IPPacket struct {
	// Protocol is the number of the payload's protocol, such as 6 for TCP.
	Protocol byte
	// Src and Dst are the addresses.
	Src, Dst netip.Addr
	// Payload is what follows the IP header.
	Payload []byte
}

// ParseIP parses a packet. It reports false if the packet is not IP.
func ParseIP(b []byte) (p IPPacket, ok bool) {
	const header4, header6 = 20, 40
	switch {
	case len(b) >= header4 && b[0]>>4 == 4 && len(b) >= 4*int(b[0]&15):
		return IPPacket{
			b[9], netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20])), b[4*int(b[0]&15):],
		}, true
	case len(b) >= header6 && b[0]>>4 == 6:
		return IPPacket{
			b[6], netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])), b[header6:],
		}, true
	}
	return p, false
}
