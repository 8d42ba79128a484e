// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package wireguard_test

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/policy"
)

// Packets from pods and nodes to pods of other nodes are encrypted, in both families. Packets from
// pods to nodes are not.
func TestPodsAreEncrypted(t *testing.T) {
	c := newCluster(t, 3, nil)
	wire := c.nodes[0].capture()
	c.requireReachable()
	packets := wire.packets()
	require.Contains(t, packets, "wireguard 51820 > 51820")
	require.Empty(t, plaintext(packets))
	// A node's answer to a pod is unencrypted, as the request was.
	require.Contains(t, packets, "tcp 10.65.1.1 > 192.0.2.2")
	require.Contains(t, packets, "tcp 192.0.2.2 > 10.65.1.1")

	// The private key is in the kernel and in its file, which only root reads.
	n := c.nodes[0]
	info, err := os.Stat(n.cfg.Devices[0].KeyFile)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	text, err := os.ReadFile(n.cfg.Devices[0].KeyFile)
	require.NoError(t, err)
	dev := n.device("wg.way")
	require.Equal(t, dev.PrivateKey.String()+"\n", string(text))
	require.Equal(t, 51820, dev.ListenPort)
	require.Len(t, dev.Peers, 2)
}

// With host encryption, only packets from and to the named addresses are unencrypted between the
// nodes.
func TestHostsAreEncrypted(t *testing.T) {
	c := newCluster(t, 3, func(cfg *wireguard.Config) {
		cfg.HostEncryption = true
		cfg.UnencryptedHosts = []netip.Prefix{netip.MustParsePrefix("192.0.2.3/32")}
	})
	n1 := c.nodes[0]
	for _, a := range []string{"192.0.2.2", "2001:db8::2", "2001:db8::3"} {
		c.until(a, func() bool { return strings.HasPrefix(n1.outInterface(netip.MustParseAddr(a)), "wg") })
	}
	require.Equal(t, "eth0", n1.outInterface(netip.MustParseAddr("192.0.2.3")))
	wire := n1.capture()
	c.requireReachable()
	packets := wire.packets()
	require.Empty(t, plaintext(packets))
	for _, p := range packets {
		require.True(t, strings.HasPrefix(p, "wireguard") || strings.Contains(p, "192.0.2.3"), p)
	}

	// A pod's packets with the port of the device are encrypted too.
	var conn net.Conn
	require.NoError(t, n1.pod.NS.Do(func() (err error) {
		from := &net.UDPAddr{IP: n1.pod.Addresses[0].AsSlice(), Port: 51820}
		conn, err = (&net.Dialer{LocalAddr: from}).Dial("udp", fmt.Sprintf("10.65.2.1:%d", port))
		return err
	}))
	defer conn.Close()
	_, err := conn.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(5*time.Second)))
	answer := make([]byte, 100)
	length, err := conn.Read(answer)
	require.NoError(t, err)
	require.Equal(t, c.nodes[1].text+"\n", string(answer[:length]))
	require.Empty(t, plaintext(wire.packets()))
}

// The packets of sockets that were connected before host encryption began are encrypted, too: the
// kernel does not use the routes that it has cached for the sockets.
func TestOldSocketsOfHostsAreEncrypted(t *testing.T) {
	c := newUnderlay(t, 2, func(cfg *wireguard.Config) { cfg.HostEncryption = true })
	n1, n2 := c.nodes[0], c.nodes[1]
	answer := func(conn net.Conn) string {
		require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
		_, err := conn.Write([]byte("hello"))
		require.NoError(t, err)
		text := make([]byte, 100)
		length, err := conn.Read(text)
		require.NoError(t, err)
		return string(text[:length])
	}
	var sockets []net.Conn
	wire := n1.capture()
	for i, a := range n2.resource.Addresses {
		require.NoError(t, n1.ns.Do(func() error {
			conn, err := net.Dial("udp", netip.AddrPortFrom(a.Addr(), port).String())
			sockets = append(sockets, conn)
			return err
		}))
		defer sockets[i].Close()
		require.Equal(t, n2.text+"\n", answer(sockets[i]))
	}
	require.Contains(t, wire.packets(), "udp 2001:db8::1 > 2001:db8::2")
	for _, n := range c.nodes {
		n.start()
	}
	c.awaitKeys()
	for _, n := range c.nodes {
		require.NoError(t, n.driver.WaitApplied(t.Context()))
	}
	wire.packets()
	for _, socket := range sockets {
		require.Equal(t, n2.text+"\n", answer(socket))
	}
	require.Equal(t, []string{"wireguard 51820 > 51820"}, wire.packets())
}

// A node that does not encrypt is reached unencrypted. One that announces a key which it does not
// have is not reached, and neither is one with another node's key.
func TestOtherNodes(t *testing.T) {
	c := newUnderlay(t, 3, nil)
	n1, n2, n3 := c.nodes[0], c.nodes[1], c.nodes[2]
	n3.dropAnnouncements = true
	for _, n := range c.nodes {
		n.start()
	}
	c.until("n2", func() bool { return n1.outInterface(n2.pod.Addresses[0]) == "wg.way" })
	require.Equal(t, "eth0", n1.outInterface(n3.pod.Addresses[0]))
	c.requireReachable()

	n3.change(func(resource *policy.Node) {
		key := n2.device("wg.way").PublicKey.String()
		resource.WireguardKeys = []policy.WireguardKey{{PublicKey: key, Port: 51820}}
	})
	c.until("a drop", func() bool { // by a route instead of the one over the device, and by the next route
		return len(n1.list("blackhole 10.65.3.0/26", "ip route show table 22361")) == 2
	})
	require.ErrorIs(t, n1.driver.Status().LastError, wireguard.ErrRemoteNode)
	require.Equal(t, "wg.way", n1.outInterface(n2.pod.Addresses[0]))
	require.Len(t, n1.device("wg.way").Peers, 1)

	n3.change(func(resource *policy.Node) { resource.WireguardKeys = nil })
	n3.stop() // it encrypts until then, because its resource had a key
	n3.start()
	c.until("unencrypted", func() bool { return n1.outInterface(n3.pod.Addresses[0]) == "eth0" })
	c.requireReachable()
}

// Packets to the pods of a node leave encrypted or not at all, even if the node loses its addresses
// or its resource. Without an address of a family, the graph has no path to the pods of that
// family. Without a resource, no keys are known.
func TestNodeIsLost(t *testing.T) {
	c := newCluster(t, 3, nil)
	n1, n3 := c.nodes[0], c.nodes[2]
	c.requireReachable()
	wire := n1.capture()
	var ends []func() (sent, answered int)
	for _, a := range n3.pod.Addresses {
		ends = append(ends, n1.startTraffic(n3, a))
	}
	requireDropped := func(moment string) {
		t.Helper()
		for i, block := range []string{"10.65.3.0/26", "fd65::3:0/122"} {
			version := []string{"-4", "-6"}[i]
			c.until(moment, func() bool {
				return len(n1.list("blackhole "+block, "ip %s route show table 22361", version)) == 2
			})
		}
		for _, a := range n3.pod.Addresses {
			require.True(t, dropped(c, n1.pod.NS, a), moment)
		}
		require.ErrorIs(t, n1.driver.Status().LastError, wireguard.ErrRemoteNode)
		require.Empty(t, plaintext(wire.packets()), moment)
	}
	setAddresses := func(addresses ...netip.Prefix) {
		n3.change(func(resource *policy.Node) { resource.Addresses = addresses })
	}
	four, six := n3.resource.Addresses[0], n3.resource.Addresses[1]

	setAddresses(four)
	require.NoError(t, n1.driver.WaitApplied(t.Context()))
	for _, a := range n3.pod.Addresses {
		require.Equal(t, "wg.way", n1.outInterface(a))
		require.Equal(t, n3.text, c.answer(n1.pod.NS, a))
	}
	require.Empty(t, plaintext(wire.packets()), "without an IPv6 address")
	setAddresses()
	requireDropped("without addresses")
	setAddresses(four, six)
	c.awaitKeys()
	c.requireReachable()
	wire.packets()
	c.remove(n3.resource.Key())
	requireDropped("without a resource")
	n3.change(func(*policy.Node) {})
	c.awaitKeys()
	c.requireReachable()
	require.Empty(t, plaintext(wire.packets()), "with the resource again")

	// The answers of n3 may leave unencrypted once n1 has no keys, so the traffic ends before that.
	for _, end := range ends {
		sent, answered := end()
		require.NotZero(t, answered)
		require.Greater(t, sent, answered)
	}

	// This node still encrypts when its own resource has no keys any more.
	keys := n1.resource.WireguardKeys
	n1.change(func(resource *policy.Node) { resource.WireguardKeys = nil })
	c.remove(n3.resource.Key())
	requireDropped("without a resource and without keys of this node")
	n3.change(func(*policy.Node) {})
	n1.change(func(resource *policy.Node) { resource.WireguardKeys = keys })
	c.awaitKeys()
	// The other nodes have deleted their peer n1, and with it the session. They begin a new session
	// at once, but n1 would notice after 15 seconds (KEEPALIVE_TIMEOUT and REKEY_TIMEOUT of the
	// WireGuard protocol).
	for _, other := range c.nodes[1:] {
		require.Equal(t, n1.text, c.answer(other.pod.NS, n1.pod.Addresses[0]))
	}
	c.requireReachable()
	require.Empty(t, plaintext(wire.packets()), "at the end")
}

// While the device is missing or down, no packet leaves unencrypted. All objects are restored. The
// repair of a rule or of routes is reported: until then, packets could leave unencrypted.
func TestDeviceIsRestored(t *testing.T) {
	c := newCluster(t, 2, nil)
	n1, n2 := c.nodes[0], c.nodes[1]
	c.requireReachable()
	wire, end := n1.capture(), n1.startTrafficBothWays(n2)
	for _, command := range []string{
		"ip link del dev wg.way", "ip link set dev wg.way down", "ip route flush table 22361",
		"ip rule del priority 100",
		"ip addr del 10.65.1.0/32 dev wg.way", "ip link set dev wg.way mtu 1200",
		"sysctl -qw net.ipv4.conf.wg/way.rp_filter=1",
	} {
		repairs := n1.driver.Stats().Repairs
		n1.run(n1.ns, "%s", command)
		c.awaitKeys()
		c.until(command, func() bool { return len(n1.device("wg.way").Peers) == 1 })
		c.requireReachable()
		packets := wire.packets()
		require.Contains(t, packets, "wireguard 51820 > 51820", command)
		if strings.Contains(command, "rule") || strings.Contains(command, "route") {
			c.until(command, func() bool { return n1.driver.Stats().Repairs > repairs })
		} else {
			require.Empty(t, plaintext(packets), command)
		}
	}
	end(func(_, answered int) { require.Positive(t, answered) })
	require.Len(t, n1.list("mtu 1420", "ip link show dev wg.way"), 1)

	// Keys and peers are repaired by a resync.
	other, err := wgtypes.GeneratePrivateKey()
	require.NoError(t, err)
	want := n1.device("wg.way")
	for i, cfg := range []wgtypes.Config{
		{PrivateKey: &other},
		{ReplacePeers: true},
		{ListenPort: new(int)},
		{Peers: []wgtypes.PeerConfig{{PublicKey: other.PublicKey()}}},
		{Peers: []wgtypes.PeerConfig{{PublicKey: want.Peers[0].PublicKey, ReplaceAllowedIPs: true}}},
	} {
		n1.configure("wg.way", cfg)
		require.NoError(t, n1.driver.Resync(t.Context()))
		got := n1.device("wg.way")
		require.Equal(t, want.PrivateKey, got.PrivateKey, i)
		require.Equal(t, want.ListenPort, got.ListenPort, i)
		require.Len(t, got.Peers, 1, i)
		require.ElementsMatch(t, want.Peers[0].AllowedIPs, got.Peers[0].AllowedIPs, i)
	}
	c.until("n2", func() bool { return n1.outInterface(n2.pod.Addresses[0]) == "wg.way" })
	c.requireReachable()
}

// Packets to a borrowed address reach the node that borrowed it.
func TestBorrowedAddress(t *testing.T) {
	c := newCluster(t, 3, nil)
	n1, n2, n3 := c.nodes[0], c.nodes[1], c.nodes[2]
	lent := netip.MustParseAddr("10.65.2.9")
	moved := &policy.WorkloadEndpoint{
		Namespace: "shop", Name: "lent", Node: "n1", Interface: n1.pod.Host.Name, Addresses: []netip.Addr{lent},
		MAC: n1.pod.Link.MAC.String(),
	}
	block := &policy.Block{
		CIDR: netip.MustParsePrefix("10.65.2.0/26"), Node: "n2",
		Borrowed: []policy.BorrowedAddress{{Address: lent, Node: "n1"}},
	}
	c.set(moved, block)
	c.until("at n1", func() bool { return n1.outInterface(lent) == n1.pod.Host.Name })
	for _, n := range []*node{n2, n3} {
		c.until("at n1", func() bool { return hasAllowed(n, n1, lent) })
		require.Equal(t, "wg.way", n.outInterface(lent))
	}
	// The address moves to a third node: each device accepts it only from there.
	toN3 := *moved
	toN3.Node, toN3.Interface, toN3.MAC = "n3", n3.pod.Host.Name, n3.pod.Link.MAC.String()
	lentToN3 := *block
	lentToN3.Borrowed = []policy.BorrowedAddress{{Address: lent, Node: "n3"}}
	c.set(&toN3, &lentToN3)
	for _, n := range []*node{n1, n2} {
		c.until("at n3", func() bool { return hasAllowed(n, n3, lent) })
		if n != n1 {
			require.False(t, hasAllowed(n, n1, lent))
		}
	}
	c.until("at n3", func() bool { return n3.outInterface(lent) == n3.pod.Host.Name })
	c.requireReachable()
}

// hasAllowed reports whether a node's device has the address itself, not a prefix, among the
// allowed IPs of another node.
func hasAllowed(at, from *node, a netip.Addr) bool {
	key := from.device("wg.way").PublicKey
	for _, p := range at.device("wg.way").Peers {
		for _, n := range p.AllowedIPs {
			if p.PublicKey == key && n.String() == a.String()+"/32" {
				return true
			}
		}
	}
	return false
}

// watchChanges returns a function that returns the changes to links, addresses, rules and routes of
// the node since this call, as ip prints them.
func (n *node) watchChanges() (changes func() []string) {
	n.Helper()
	cmd := exec.Command("ip", "monitor", "link", "address", "rule", "route")
	out, err := cmd.StdoutPipe()
	require.NoError(n, err)
	require.NoError(n, n.ns.Do(cmd.Start))
	n.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	const mark = "198.51.100.1"
	n.until("the monitor", func() bool {
		n.run(n.ns, "ip route add blackhole %s", mark)
		n.run(n.ns, "ip route del blackhole %s", mark)
		return len(lines) > 0
	})
	return func() (list []string) {
		n.run(n.ns, "ip route add blackhole %s metric 7", mark)
		for line := range lines {
			switch {
			case strings.Contains(line, mark+" metric 7"):
				return list
			case !strings.Contains(line, mark):
				list = append(list, line)
			}
		}
		return append(list, "the monitor has ended")
	}
}

// A node that starts again writes nothing, and the other nodes keep their sessions. Teardown
// removes everything except the key.
func TestNodeStartsAgain(t *testing.T) {
	c := newCluster(t, 2, nil)
	c.requireReachable()
	n := c.nodes[0]
	whole := func() string {
		return n.run(n.ns, "ip -d link show dev wg.way") + n.run(n.ns, "ip addr show dev wg.way") +
			n.run(n.ns, "ip rule") + n.run(n.ns, "ip -6 rule") + n.run(n.ns, "ip route show table 22361") +
			n.run(n.ns, "ip -6 route show table 22361") + n.device("wg.way").Peers[0].LastHandshakeTime.String()
	}
	before := whole()
	n.stop()
	d, err := wireguard.New(n.cfg)
	require.NoError(t, err)
	defer d.Close()
	plan, err := d.Plan(t.Context(), n.snapshot())
	require.NoError(t, err)
	require.Empty(t, plan)
	changes := n.watchChanges()
	n.start()
	require.NoError(t, n.driver.WaitApplied(t.Context()))
	require.NoError(t, n.driver.Resync(t.Context()))
	require.Empty(t, changes())
	require.Equal(t, before, whole())
	c.requireReachable()
	n.stop()

	plan, err = d.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Contains(t, plan, "ip link del dev wg.way\n")
	require.NoError(t, d.Teardown(t.Context()))
	require.Empty(t, n.list("wg", "ip -o link"))
	require.Empty(t, n.list("22361", "ip rule"))
	require.Empty(t, n.list("22361", "ip route show table all"))
	require.FileExists(t, n.cfg.Devices[0].KeyFile)
	n.start()
	c.awaitKeys()
	c.requireReachable()
}
