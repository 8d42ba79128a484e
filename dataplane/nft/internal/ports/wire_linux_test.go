// SPDX-License-Identifier: Apache-2.0

package ports_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// waitTimeout is how long a test waits for an expected frame.
const waitTimeout = 10 * time.Second

// bridge is a node with a bridge. The other ends of its ports are in another namespace, each with a
// packet socket.
type bridge struct {
	node, peers *netns.NS
	sockets     map[string]int // by port
	sequence    uint64
}

// The ports of the rig itself: the test receives flooded frames at sink, and sends sentinels from
// free.
const sink, free = "sink", "free"

func newBridge(t *testing.T, names ...string) *bridge {
	t.Helper()
	b := &bridge{node: nstest.New(t), peers: nstest.New(t), sockets: map[string]int{}}
	for _, ns := range []*netns.NS{b.node, b.peers} { // no frames but those of the test
		require.NoError(t, ns.SetSysctl("net/ipv6/conf/all/disable_ipv6", "1"))
		require.NoError(t, ns.SetSysctl("net/ipv6/conf/default/disable_ipv6", "1"))
	}
	// br_netfilter removes ids, which are behind the packet.
	for _, call := range []string{"iptables", "ip6tables", "arptables"} {
		if name := "net/bridge/bridge-nf-call-" + call; exists(b.node, name) {
			require.NoError(t, b.node.SetSysctl(name, "0"))
		}
	}
	ip(t, b.node, "link", "add", "br0", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
	ip(t, b.node, "link", "set", "br0", "up")
	for _, name := range append(names, sink, free) {
		b.connect(t, name)
	}
	return b
}

func exists(ns *netns.NS, sysctl string) bool {
	_, err := ns.Sysctl(sysctl)
	return err == nil
}

// connect adds a port, and opens a packet socket on its other end.
func (b *bridge) connect(t *testing.T, name string) {
	t.Helper()
	ip(t, b.node, "link", "add", name, "type", "veth", "peer", "name", "peer-"+name)
	ip(t, b.node, "link", "set", "peer-"+name, "netns", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), b.peers.FD()))
	ip(t, b.node, "link", "set", name, "master", "br0", "up")
	ip(t, b.peers, "link", "set", "peer-"+name, "up")
	link, err := b.peers.Link("peer-" + name)
	require.NoError(t, err)
	require.NoError(t, b.peers.Do(func() error {
		all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
		if err != nil {
			return err
		}
		b.sockets[name] = fd
		t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index})
	}))
	require.Eventually(t, func() bool {
		return strings.Contains(ip(t, b.node, "-d", "link", "show", name), "state forwarding")
	}, waitTimeout, time.Millisecond)
}

func ip(t *testing.T, ns *netns.NS, args ...string) (out string) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		text, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, text)
		}
		out = string(text)
		return nil
	}))
	return out
}

// passes sends a frame into a port and reports whether the bridge floods it. A sentinel follows in
// the same queue of the same processor. If only the sentinel arrives, the frame was dropped.
func (b *bridge) passes(t *testing.T, port string, frame []byte) (got bool) {
	t.Helper()
	b.sequence++
	id := binary.BigEndian.AppendUint64(nil, b.sequence)
	end := binary.BigEndian.AppendUint64(nil, ^b.sequence)
	sentinel := nfttest.Ether(nfttest.Broadcast(), mac(0x55), nil, 0x88b5, make([]byte, 46))
	require.NoError(t, b.peers.Do(func() error {
		if err := stayOnProcessor(); err != nil {
			return err
		}
		_, err := unix.Write(b.sockets[port], append(slices.Clone(frame), id...))
		if err == nil {
			_, err = unix.Write(b.sockets[free], append(sentinel, end...))
		}
		return err
	}))
	fd := b.sockets[sink]
	require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}))
	for buffer := make([]byte, 2048); ; {
		n, err := unix.Read(fd, buffer)
		require.NoError(t, err, "the sentinel is lost")
		switch tail := string(buffer[max(0, n-8):n]); tail {
		case string(id):
			got = true
		case string(end):
			return got
		}
	}
}

// stayOnProcessor keeps the thread on one of its processors. The thread of netns.NS.Do ends
// afterwards.
func stayOnProcessor() error {
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	for i := range 8 * len(may) {
		if may.IsSet(i) {
			one.Set(i)
			return unix.SchedSetaffinity(0, &one)
		}
	}
	return nil
}

// apply programs the table.
func (b *bridge) apply(t *testing.T, table *ruleset.Table) {
	t.Helper()
	a, err := applier.New(applier.Config{Family: ruleset.FamilyBridge, Name: "wayleave", NetNS: b.node.FD()})
	require.NoError(t, err)
	require.NoError(t, a.Apply(context.Background(), table))
	require.NoError(t, a.Close())
}

// learned returns the port of a MAC address in the bridge's forwarding table; empty if it has none.
func (b *bridge) learned(t *testing.T, address nfttest.MAC) string {
	t.Helper()
	for line := range strings.SplitSeq(fdb(t, b.node), "\n") {
		if port, found := strings.CutPrefix(line, net.HardwareAddr(address[:]).String()+" dev "); found {
			return strings.Fields(port)[0]
		}
	}
	return ""
}

func fdb(t *testing.T, ns *netns.NS) (out string) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		text, err := exec.Command("bridge", "fdb", "show", "br", "br0", "dynamic").CombinedOutput()
		out = string(text)
		return err
	}))
	return out
}

// TestWireFrames: S171: the kernel has the verdicts of the simulator, and without the table the
// bridge floods every frame: also a frame with a priority tag.
func TestWireFrames(t *testing.T) {
	b := newBridge(t, "veth1", "veth2", "tap3", "veth9", "eth0")
	everything := all()
	for _, c := range everything {
		require.True(t, b.passes(t, c.port, c.frame), "without the table: %s", c.name)
	}
	b.apply(t, node(config(), allPorts()))
	for _, c := range everything {
		require.Equal(t, c.passes, b.passes(t, c.port, c.frame), c.name)
	}
}

// TestWireListing: nft lists the table, and the listing has the rules of the table.
func TestWireListing(t *testing.T) {
	b := &bridge{node: nstest.New(t)}
	table := node(config(), allPorts())
	b.apply(t, table)
	listed, err := ruleset.Parse(nfttest.Listing(t, b.node))
	require.NoError(t, err)
	require.Equal(t, nfttest.AsListed(table).String(), nfttest.AsListed(listed).String())
}

// TestWireLearning: the bridge does not learn the source of a frame that the table drops, so a
// workload does not get the frames of another.
func TestWireLearning(t *testing.T) {
	b := newBridge(t, "veth1", "veth2")
	stolen := nfttest.Ether(nfttest.Broadcast(), mac(2), nil, nfttest.EtherIPv4,
		nfttest.IP(addr("10.0.0.1"), addr("10.0.0.7"), 17, nfttest.UDP(1, 2, nil)))
	require.True(t, b.passes(t, "veth1", stolen))
	require.Equal(t, "veth1", b.learned(t, mac(2)), "without the table")
	b.apply(t, node(config(), allPorts()))
	own := nfttest.Ether(nfttest.Broadcast(), mac(2), nil, nfttest.EtherIPv4,
		nfttest.IP(addr("10.0.0.2"), addr("10.0.0.7"), 17, nfttest.UDP(1, 2, nil)))
	require.True(t, b.passes(t, "veth2", own))
	require.Equal(t, "veth2", b.learned(t, mac(2)))
	require.False(t, b.passes(t, "veth1", stolen))
	require.Equal(t, "veth2", b.learned(t, mac(2)))
}

// TestWireGroupAddresses: the kernel learns sources of frames to group addresses of IEEE 802.1D
// without the hook, unless no_linklocal_learn is set.
func TestWireGroupAddresses(t *testing.T) {
	b := newBridge(t, "veth1", "veth2")
	b.apply(t, node(config(), allPorts()))
	stolen := func(last byte) []byte {
		return nfttest.Ether(nfttest.MAC{1, 0x80, 0xc2, 0, 0, 0x0e}, mac(last), nil, nfttest.EtherIPv4,
			nfttest.IP(addr("10.0.0.1"), addr("10.0.0.7"), 17, nfttest.UDP(1, 2, nil)))
	}
	require.False(t, b.passes(t, "veth1", stolen(5)))
	require.Equal(t, "veth1", b.learned(t, mac(5)))
	ip(t, b.node, "link", "set", "br0", "type", "bridge", "no_linklocal_learn", "1")
	require.False(t, b.passes(t, "veth1", stolen(6)))
	require.Empty(t, b.learned(t, mac(6)))
}
