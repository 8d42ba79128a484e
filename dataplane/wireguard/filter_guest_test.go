// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package wireguard_test

import (
	"net/netip"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

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
			require.Empty(t, n1.list("wayleave", "nft list tables"))
			require.False(t, dropped(c, n2.pod.NS, n1.pod.Addresses[0]))
		})
	}
}

// dropped reports whether an address does not answer.
func dropped(c *cluster, from *netns.NS, to netip.Addr) bool {
	c.Helper()
	return nstest.Dropped(c.T, from, netip.AddrPortFrom(to, port).String())
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
