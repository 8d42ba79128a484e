// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

const (
	// waitTimeout is the time limit for expected events.
	waitTimeout = 20 * time.Second
	// dropTimeout is how long a test waits for an event that must not happen. A slow machine does
	// not fail a test because of it.
	dropTimeout = 250 * time.Millisecond
)

// network is a node that routes between two workloads, each of which echoes TCP and UDP on ports 80
// and 81.
type network struct {
	node      *netns.NS
	workloads []*netns.Workload
	conn      *conntrack.Conn
}

// own is an address of a workload.
func own(family, workload int) netip.Addr {
	return netip.MustParseAddr(
		[]string{fmt.Sprintf("10.99.0.%d", workload+1), fmt.Sprintf("fd00:99::%d", workload+1)}[family],
	)
}

// newNetwork makes a network whose node tracks connections and has further rules.
func newNetwork(t *testing.T, rules string) *network {
	t.Helper()
	n := &network{node: nstest.New(t)}
	require.NoError(t, n.node.SetSysctl("net/ipv4/ip_forward", "1"))
	require.NoError(t, n.node.SetSysctl("net/ipv6/conf/all/forwarding", "1"))
	for i := range 2 {
		w := nstest.NewWorkload(t, n.node, fmt.Sprintf("way%d", i+1), own(0, i).String(), own(1, i).String())
		n.workloads = append(n.workloads, w)
		n.route(t, w)
		for _, port := range []string{"80", "81"} {
			serve(t, w, port)
		}
	}
	n.load(
		t,
		"table inet track { chain forward { type filter hook forward priority -1; ct state invalid drop; }; }\n"+rules,
	)
	var err error
	n.conn, err = conntrack.Dial(conntrack.ConnConfig{NetNS: n.node.FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.conn.Close()) })
	return n
}

func (n *network) route(t *testing.T, w *netns.Workload) {
	t.Helper()
	require.NoError(t, n.node.Do(func() error {
		link, err := netlink.LinkByName(w.Host.Name)
		if err != nil {
			return err
		}
		for _, a := range w.Addresses {
			err = netlink.NeighSet(&netlink.Neigh{
				LinkIndex: link.Attrs().Index, IP: a.AsSlice(), HardwareAddr: w.Link.MAC, State: netlink.NUD_PERMANENT,
			})
			if err != nil {
				return err
			}
			dst := &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
			if err = netlink.RouteAdd(
				&netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK},
			); err != nil {
				return err
			}
		}
		return nil
	}))
}

// load loads rules with nft.
func (n *network) load(t *testing.T, rules string) {
	t.Helper()
	nstest.NFT(t, n.node, rules, "-f", "-")
}

func serve(t *testing.T, w *netns.Workload, port string) {
	t.Helper()
	var servers sync.WaitGroup
	var listener net.Listener
	var packets net.PacketConn
	require.NoError(t, w.NS.Do(func() (err error) {
		if listener, err = net.Listen("tcp", ":"+port); err != nil {
			return err
		}
		packets, err = net.ListenPacket("udp", ":"+port)
		return err
	}))
	servers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			servers.Go(func() {
				_ = conn.SetDeadline(time.Now().Add(2 * waitTimeout)) // so that it ends also if the connection was cut
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
			t.Cleanup(func() { _ = conn.Close() })
		}
	})
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
		require.NoError(t, listener.Close())
		require.NoError(t, packets.Close())
		servers.Wait()
	})
}

// dial opens a connection from a workload and receives an answer.
func (n *network) dial(t *testing.T, protocol string, from int, to netip.AddrPort) net.Conn {
	t.Helper()
	var conn net.Conn
	require.NoError(t, n.workloads[from].NS.Do(func() (err error) {
		conn, err = (&net.Dialer{Timeout: waitTimeout}).Dial(protocol, to.String())
		return err
	}))
	t.Cleanup(func() { _ = conn.Close() })
	require.True(t, exchange(conn, waitTimeout), "%s to %s", protocol, to)
	return conn
}

// exchange reports whether sent data is echoed in time.
func exchange(conn net.Conn, timeout time.Duration) bool {
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if _, err := conn.Write([]byte("hello")); err != nil {
		return false
	}
	_, err := io.ReadFull(conn, make([]byte, 5))
	return err == nil
}

// ping sends one echo request from a workload and waits for the answer.
func (n *network) ping(t *testing.T, from int, to netip.Addr, id uint16) {
	t.Helper()
	request := []byte{8, 0, 0, 0, byte(id >> 8), byte(id), 0, 1}
	family, protocol, answer, header := unix.AF_INET, unix.IPPROTO_ICMP, byte(0), 20
	var sockaddr unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte(to.AsSlice()[:4])}
	if to.Is6() {
		family, protocol, answer, header = unix.AF_INET6, unix.IPPROTO_ICMPV6, 129, 0
		request[0] = 128 // the kernel fills in the checksum
		sockaddr = &unix.SockaddrInet6{Addr: to.As16()}
	} else {
		binary.BigEndian.PutUint16(request[2:], ^(8<<8 + id + 1))
	}
	require.NoError(t, n.workloads[from].NS.Do(func() error {
		fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		limit := unix.NsecToTimeval(int64(waitTimeout))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
			return err
		}
		if err := unix.Sendto(fd, request, 0, sockaddr); err != nil {
			return err
		}
		for buf := make([]byte, 128); ; {
			size, _, err := unix.Recvfrom(fd, buf, 0)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return err
			}
			if size >= header+8 && buf[header] == answer && binary.BigEndian.Uint16(buf[header+4:]) == id {
				return nil
			}
		}
	}))
}

// flows returns the flows that the test caused.
func (n *network) flows(t *testing.T) (flows []conntrack.Flow) {
	t.Helper()
	all, err := n.conn.Flows(t.Context())
	require.NoError(t, err)
	for _, f := range all {
		if f.Original.ICMPType != 133 && !f.Source().Addr().IsLinkLocalUnicast() &&
			!f.Requested().Addr().IsMulticast() {
			flows = append(flows, f)
		}
	}
	return flows
}

// find returns the only flow of a connection, as its dialler sees it.
func (n *network) find(t *testing.T, conn net.Conn) conntrack.Flow {
	t.Helper()
	var found []conntrack.Flow
	for _, f := range n.flows(t) {
		if f.Source().String() == conn.LocalAddr().String() && f.Requested().String() == conn.RemoteAddr().String() {
			found = append(found, f)
		}
	}
	require.Len(t, found, 1, "%s > %s", conn.LocalAddr(), conn.RemoteAddr())
	return found[0]
}

// tracked reports whether there is a flow of the connection.
func (n *network) tracked(t *testing.T, conn net.Conn) bool {
	t.Helper()
	for _, f := range n.flows(t) {
		if f.Source().String() == conn.LocalAddr().String() && f.Requested().String() == conn.RemoteAddr().String() {
			return true
		}
	}
	return false
}

// replaceOne replaces the placeholder in the text by a rule.
func replaceOne(text, rule string) string { return strings.Replace(text, "%", rule, 1) }

// arrives reports whether data from one end arrives at the other in time.
func arrives(from, to net.Conn, timeout time.Duration) bool {
	if _, err := from.Write([]byte("hello")); err != nil {
		return false
	}
	_ = to.SetReadDeadline(time.Now().Add(timeout))
	_, err := io.ReadFull(to, make([]byte, 5))
	return err == nil
}
