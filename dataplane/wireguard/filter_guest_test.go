// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package wireguard_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// A node that requires encryption drops exactly the unencrypted packets that another node should
// have encrypted, in both families.
func TestUnencryptedPacketsAreDropped(t *testing.T) {
	for _, hosts := range []bool{false, true} {
		t.Run(map[bool]string{false: "pods", true: "hosts"}[hosts], func(t *testing.T) {
			c := newCluster(t, 3, func(cfg *wireguard.Config) {
				cfg.RequireEncryption, cfg.HostEncryption = true, hosts
				cfg.UnencryptedHosts = []netip.Prefix{netip.MustParsePrefix("192.0.2.3/32")}
			})
			n1, n2, n3 := c.nodes[0], c.nodes[1], c.nodes[2]
			for _, n := range c.nodes { // the kernel would drop some of the packets by itself
				n.run(n.ns, "sysctl -qw net.ipv4.conf.eth0.rp_filter=0 net.ipv4.conf.all.rp_filter=0")
			}
			c.requireReachable()
			n2.stop()
			for _, family := range []string{"-4", "-6"} {
				n2.run(n2.ns, "ip %s rule del priority 100", family)
			}
			n2.run(n2.ns, "nft delete table inet wayleave-wireguard") // it would drop packets of n2 itself
			for i, a := range n1.pod.Addresses {
				require.True(t, dropped(c, n2.pod.NS, a), a)
				require.False(t, dropped(c, n3.pod.NS, a), a)
				require.Equal(t, hosts, dropped(c, n2.ns, n1.resource.Addresses[i].Addr()))
			}
			require.Equal(t, hosts, dropped(c, n2.ns, n1.pod.Addresses[0]), "from the address of the node")
			require.False(t, dropped(c, n2.ns, n3.resource.Addresses[0].Addr()), "it is named")

			err := n1.ns.Do(exec.Command("nft", "delete", "table", "inet", "wayleave-wireguard").Run)
			if err == nil { // from Linux 6.9 on, no other process can change the table
				require.False(t, dropped(c, n2.pod.NS, n1.pod.Addresses[0]))
				require.NoError(t, n1.driver.Resync(t.Context()))
			}
			require.True(t, dropped(c, n2.pod.NS, n1.pod.Addresses[0]))

			n1.stop()
			n1.cfg.RequireEncryption = false
			n1.start()
			require.NoError(t, n1.driver.WaitApplied(t.Context()))
			require.Equal(t, hosts, len(n1.list("wayleave", "nft list tables")) > 0, "HostEncryption needs the table")
			require.False(t, dropped(c, n2.pod.NS, n1.pod.Addresses[0]))
		})
	}
}

// If a socket is bound to an interface, its packets to encrypted prefixes are dropped with
// HostEncryption, because the kernel would send them unencrypted.
func TestPacketsOfBoundSocketsAreDropped(t *testing.T) {
	c := newCluster(t, 3, func(cfg *wireguard.Config) {
		cfg.HostEncryption = true
		cfg.UnencryptedHosts = []netip.Prefix{netip.MustParsePrefix("192.0.2.3/32")}
	})
	n1, n2 := c.nodes[0], c.nodes[1]
	wire := n1.capture()
	// dial connects to a server from a socket that is bound to eth0.
	dial := func(network string, to netip.Addr) error {
		dialer := net.Dialer{Timeout: 300 * time.Millisecond}
		dialer.Control = func(_, _ string, raw syscall.RawConn) (err error) {
			controlErr := raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), "eth0") })
			return errors.Join(err, controlErr)
		}
		return n1.ns.Do(func() error {
			conn, err := dialer.Dial(network, netip.AddrPortFrom(to, port).String())
			if err != nil {
				return err
			}
			_, err = conn.Write([]byte("hello"))
			return errors.Join(err, conn.Close())
		})
	}
	for i, a := range n2.resource.Addresses {
		for _, to := range []netip.Addr{a.Addr(), n2.pod.Addresses[i]} {
			for _, network := range []string{"tcp", "udp"} {
				require.Error(t, dial(network, to), "%s to %s", network, to)
			}
		}
	}
	require.NoError(t, dial("tcp", netip.MustParseAddr("192.0.2.3")), "its packets are not encrypted")
	for _, p := range wire.packets() {
		require.True(t, strings.HasPrefix(p, "wireguard") || strings.Contains(p, "192.0.2.3"), p)
	}
	c.requireReachable()
}

// dropped reports whether an address does not answer.
func dropped(c *cluster, from *netns.NS, to netip.Addr) bool {
	c.Helper()
	return nstest.Dropped(c.T, from, netip.AddrPortFrom(to, port).String())
}

// RequireEncryption and HostEncryption need the module nft_fib_inet. Without it, the error names
// it, no table is made, and the dataplanes after this one get no new routes. Once the module is
// loaded, the table is made.
func TestMissingModuleOfFilterTable(t *testing.T) {
	for name, change := range map[string]func(*wireguard.Config){
		"RequireEncryption": func(cfg *wireguard.Config) { cfg.RequireEncryption = true },
		"HostEncryption":    func(cfg *wireguard.Config) { cfg.HostEncryption = true },
	} {
		t.Run(name, func(t *testing.T) { testMissingModule(t, change) })
	}
}

func testMissingModule(t *testing.T, change func(*wireguard.Config)) {
	const helper = "/proc/sys/kernel/modprobe" // the program with which the kernel loads modules
	former, err := os.ReadFile(helper)
	require.NoError(t, err)
	c := newUnderlay(t, 2, change)
	n1 := c.nodes[0]
	require.NoError(t, os.WriteFile(helper, []byte("/bin/false"), 0))
	t.Cleanup(func() { require.NoError(t, os.WriteFile(helper, former, 0)) })
	c.until("no table of an earlier test", func() bool {
		return exec.Command("modprobe", "-r", "nft_fib_inet").Run() == nil
	})
	n1.start()
	var missing *dataplane.FeatureError
	c.until("the error", func() bool { return errors.As(n1.driver.Status().LastError, &missing) })
	require.Equal(t, "nft_fib_inet", missing.Module)
	require.ErrorIs(t, missing, syscall.ENOENT)
	require.Empty(t, n1.list("wayleave", "nft list tables"))
	require.Empty(t, n1.list("10.65.2.0/26", "ip route show table main"), "no new routes")

	require.NoError(t, os.WriteFile(helper, former, 0))
	c.nodes[1].start()
	c.awaitKeys()
	require.NoError(t, n1.driver.WaitApplied(t.Context()))
	require.Len(t, n1.list("wayleave-wireguard", "nft list tables"), 1)
	c.requireReachable()
}

// If nodes are reached over IPv6, neighbour discovery between their addresses passes unencrypted.
func TestNeighbourDiscoveryIsUnencrypted(t *testing.T) {
	c := newUnderlay(t, 2, func(cfg *wireguard.Config) { cfg.RequireEncryption, cfg.HostEncryption = true, true })
	for _, n := range c.nodes {
		n.change(func(resource *policy.Node) { slices.Reverse(resource.Addresses) })
		n.start()
	}
	c.awaitKeys()
	for range 3 {
		for _, n := range c.nodes {
			n.run(n.ns, "ip -6 neigh flush dev eth0")
		}
		c.requireReachable()
	}
	peer := c.nodes[0].device("wg.way").Peers[0]
	require.Equal(t, "[2001:db8::2]:51820", peer.Endpoint.String())
}
