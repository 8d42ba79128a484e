// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"errors"
	"fmt"
	"maps"
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
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The table has this node's prefixes, and the encrypted prefixes of other nodes, less the
// unencrypted addresses in them. Pods inside this node's prefixes do not change it. It is planned
// and kept.
func TestFilterTable(t *testing.T) {
	a := newTestDataplane(t)
	a.cfg.RequireEncryption, a.cfg.HostEncryption = true, true
	list := func() string { return nstest.WithoutOwner(nstest.NFT(t, a.ns, "", "list", "ruleset")) }
	events := append([]dataplane.Event{
		routeUpdate("192.0.2.1/32", "a", dataplane.RouteLocalHost),
		routeUpdate("10.0.1.0/32", "a", dataplane.RouteLocalTunnel),
		routeUpdate("10.9.9.9/32", "a", dataplane.RouteLocalTunnel), // the address of another device
		routeUpdate("fd00:1::/122", "a", dataplane.RouteBlackhole),
	}, network()...)
	plan, err := a.Plan(t.Context(), dataplane.Batch{Events: events})
	require.NoError(t, err)
	require.Contains(t, plan, "nft -f - <<'END'\ntable inet wayleave-wireguard {\n")
	_ = a.Apply(t.Context(), dataplane.Batch{Events: events})
	want, err := os.ReadFile("testdata/table.nft")
	require.NoError(t, err)
	require.Equal(t, string(want), list())
	plan, err = a.Plan(t.Context(), dataplane.Batch{})
	require.NoError(t, err)
	require.NotContains(t, plan, "nft")

	for _, tt := range []struct {
		event   dataplane.Event
		changes bool
	}{
		{routeUpdate("10.0.1.7/32", "a", dataplane.RouteLocalWorkload), false},
		{routeUpdate("10.0.5.0/26", "a", dataplane.RouteBlackhole), true},
		{routeUpdate("10.7.7.7/32", "a", dataplane.RouteLocalWorkload), true},
		{&dataplane.RouteRemove{Dst: netip.MustParsePrefix("10.0.1.7/32")}, false},
	} {
		a.state.changed = false
		a.state.update(dataplane.Batch{Events: []dataplane.Event{tt.event}})
		require.Equal(t, tt.changes, a.state.changed, tt.event)
		_ = a.applyVisible()
	}
	require.Contains(t, list(), "10.0.5.0/26")
	require.Contains(t, list(), "10.7.7.7")
	require.NotContains(t, list(), "10.0.1.7")
}

// Teardown removes the table, and so does a run without the options that need it.
func TestFilterTableIsRemoved(t *testing.T) {
	a := newTestDataplane(t)
	a.cfg.RequireEncryption, a.cfg.HostEncryption = true, true
	list := func() string { return nstest.NFT(t, a.ns, "", "list", "ruleset") }
	_ = a.applyVisible(network()...)
	plan, err := a.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Contains(t, plan, "nft 'delete table inet wayleave-wireguard'\n")
	require.NoError(t, a.Teardown(t.Context()))
	require.Empty(t, list())

	_ = a.applyVisible(network()...)
	require.NotEmpty(t, list())
	require.NoError(t, a.Close())
	b := newTestDataplane(t)
	b.ns, b.cfg.NetNS, b.devices.namespace = a.ns, a.ns.FD(), a.ns.FD()
	plan, err = b.Plan(t.Context(), dataplane.Batch{Events: network()})
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(plan, "nft"), plan)
	_ = b.applyVisible(network()...)
	require.Empty(t, list())
}

// newTranslatingNode returns a node that translates the destinations of services to its pod, an
// external host, and the pod's socket. Its routes encrypt packets to 10.0.2.0/26 and fd00:2::/122.
// The host has addresses inside and outside of these.
func newTranslatingNode(t *testing.T) (node, underlay *netns.NS, pod net.PacketConn) {
	t.Helper()
	node = nstest.New(t)
	underlay = nstest.NewPeer(t, node, "eth0", "192.0.2.1/24", "2001:db8::1/64")
	nstest.NewPeer(t, node, "wg.way")
	workload := nstest.NewWorkload(t, node, "way1", "10.0.1.5", "fd00:1::5")
	for path, value := range map[string]string{
		"net/ipv4/conf/all/rp_filter": "0", "net/ipv4/conf/eth0/rp_filter": "0", "net/ipv4/conf/all/forwarding": "1",
		"net/ipv6/conf/all/forwarding": "1",
	} {
		require.NoError(t, node.SetSysctl(path, value))
	}
	for ns, commands := range map[*netns.NS]string{
		node: `link set dev wg.way up
			route replace 10.0.1.5/32 dev way1
			route replace fd00:1::5/128 dev way1
			route add 10.0.2.0/26 dev wg.way
			route add fd00:2::/122 dev wg.way`,
		underlay: `addr add 10.0.2.5/32 dev lo
			addr add 10.0.3.5/32 dev lo
			addr add fd00:2::5/128 dev lo nodad
			addr add fd00:3::5/128 dev lo nodad
			route replace default via 192.0.2.1
			route replace default via 2001:db8::1`,
	} {
		for command := range strings.Lines(commands) {
			require.NoError(t, ns.Do(func() error {
				out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
				require.NoError(t, err, "%s: %s", command, out)
				return nil
			}))
		}
	}
	nstest.NFT(t, node, `table inet services {
	chain prerouting {
		type nat hook prerouting priority -100
		ip daddr 10.96.0.1 udp dport 53 dnat ip to 10.0.1.5:53
		ip daddr 192.0.2.1 udp dport 30053 dnat ip to 10.0.1.5:53
		ip6 daddr fd00:96::1 udp dport 53 dnat ip6 to [fd00:1::5]:53
		ip6 daddr 2001:db8::1 udp dport 30053 dnat ip6 to [fd00:1::5]:53
	}
}
`, "-f", "-")
	require.NoError(t, workload.NS.Do(func() (err error) {
		pod, err = (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", ":53")
		return err
	}))
	t.Cleanup(func() { require.NoError(t, pod.Close()) })
	return node, underlay, pod
}

// An unencrypted packet from a pod of a node that encrypts is dropped, also if its destination is
// translated to a pod. Without HostEncryption, nodes do not encrypt to the address of another one.
func TestTranslatedPacketsAreDropped(t *testing.T) {
	node, underlay, pod := newTranslatingNode(t)
	p := filterPrefixes{
		own: prefixes("10.0.1.0/26", "fd00:1::/122"), hosts: prefixes("192.0.2.1/32", "2001:db8::1/128"),
	}
	send := func(from, to, text string) {
		t.Helper()
		require.NoError(t, underlay.Do(func() error {
			conn, err := (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}).Dial("udp", to)
			if err != nil {
				return err
			}
			_, err = conn.Write([]byte(text))
			return errors.Join(err, conn.Close())
		}))
	}
	// Each packet is followed by a marker from a node that does not encrypt.
	passes := func(from, to string) bool {
		t.Helper()
		send(from, to, "packet")
		marker := "10.0.3.5"
		if strings.Contains(from, ":") {
			marker = "fd00:3::5"
		}
		send(marker, to, "marker")
		buf := make([]byte, 100)
		for i := 0; ; i++ {
			require.NoError(t, pod.SetReadDeadline(time.Now().Add(10*time.Second)))
			n, _, err := pod.ReadFrom(buf)
			require.NoError(t, err)
			if string(buf[:n]) == "marker" {
				return i == 1
			}
		}
	}
	for _, hosts := range []bool{false, true} {
		cfg := Config{
			NetNS: node.FD(), RequireEncryption: true, HostEncryption: hosts, Devices: []Device{{Name: "wg.way"}},
		}.withDefaults()
		f := filter{cfg: &cfg}
		if hosts {
			p.own, p.hosts = append(p.own, p.hosts...), nil
		}
		require.NoError(t, f.apply(t.Context(), p))
		for _, tt := range []struct {
			from, to string
			passes   bool
		}{
			{"10.0.2.5", "10.0.1.5:53", false},
			{"10.0.2.5", "10.96.0.1:53", false},
			{"10.0.2.5", "192.0.2.1:30053", !hosts},
			{"fd00:2::5", "[fd00:1::5]:53", false},
			{"fd00:2::5", "[fd00:96::1]:53", false},
			{"fd00:2::5", "[2001:db8::1]:30053", !hosts},
		} {
			require.Equal(t, tt.passes, passes(tt.from, tt.to), "%+v, HostEncryption %t", tt, hosts)
		}
		require.NoError(t, f.close())
	}
}

// A packet that the node itself sends to an encrypted prefix leaves by a WireGuard device, or not
// at all, even if its socket is bound to another interface. The table accepts packets from the port
// of a device, packets from and to UnencryptedHosts, and forwarded packets.
func TestUnencryptedPacketsOfNodeAreDropped(t *testing.T) {
	node, _, _ := newTranslatingNode(t)
	workload := nstest.NewWorkload(t, node, "way2", "10.0.1.6", "fd00:1::6")
	nstest.NewPeer(t, node, "wg2.way", "198.51.100.1/24")
	const gateway = "lladdr 02:00:00:00:00:01 nud permanent dev"
	for command := range strings.Lines(`addr add 192.0.2.77/32 dev lo
		link add br0 type bridge
		addr add fd00:9::1/64 dev br0 nodad
		link set br0 up
		addr add fd00:9::/128 dev wg.way nodad
		route add 10.0.2.7/32 dev wg2.way
		neigh replace 10.0.2.7 ` + gateway + ` wg2.way
		route replace default via 192.0.2.2
		route replace default via 2001:db8::2
		route add 10.0.2.6/32 via 192.0.2.2
		route add 10.0.1.6/32 dev way2
		neigh replace 192.0.2.2 ` + gateway + ` eth0
		neigh replace 2001:db8::2 ` + gateway + ` eth0
		neigh replace 10.0.2.5 ` + gateway + ` wg.way
		neigh replace fd00:2::5 ` + gateway + ` wg.way`) {
		require.NoError(t, node.Do(exec.Command("ip", strings.Fields(command)...).Run), command)
	}
	nstest.NFT(t, node, `table inet services {
	chain output {
		type nat hook output priority -100
		ip daddr 10.96.0.2 dnat ip to 10.0.2.5
		ip6 daddr fd00:96::2 dnat ip6 to fd00:2::5
	}
}
`, "-f", "-")
	cfg := Config{
		NetNS: node.FD(), HostEncryption: true, Devices: []Device{{Name: "wg.way"}, {Name: "wg2.way"}},
	}.withDefaults()
	f := filter{cfg: &cfg}
	t.Cleanup(func() { require.NoError(t, f.close()) })
	require.NoError(t, f.apply(t.Context(), filterPrefixes{
		remote: includedParts(prefixes("10.0.2.0/26", "fd00:2::/122"), prefixes("10.0.2.32/27")),
		exempt: prefixes("10.0.2.8/31", "192.0.2.77/32", "fd00:2::9/128"),
	}))
	captures := map[string]*nstest.Capture{}
	for _, name := range []string{"eth0", "wg.way", "wg2.way"} {
		captures[name] = nstest.NewCapture(t, node, name)
	}
	// devices returns the devices by which datagrams have left.
	devices := func() (names []string) {
		for _, name := range slices.Sorted(maps.Keys(captures)) {
			for _, b := range captures[name].Packets() {
				if p, ok := nstest.ParseIP(b); ok && p.Protocol == unix.IPPROTO_UDP {
					names = append(names, name)
				}
			}
		}
		return names
	}
	for _, tt := range []struct {
		name, from, to string
		bound          bool
		device         string
	}{
		{"IPv4", "", "10.0.2.5:1", true, ""},
		{"IPv6", "", "[fd00:2::5]:1", true, ""},
		{"from a link-local address", linkLocal(t, node, "eth0"), "[fd00:2::5]:1", true, ""},
		{"from an address that is anycast, too", "[fd00:9::]:0", "[fd00:2::5]:1", true, ""},
		{"from an address of another interface", "198.51.100.1:0", "10.0.2.5:1", true, ""},
		{"translated", "", "10.96.0.2:1", true, ""},
		{"translated IPv6", "", "[fd00:96::2]:1", true, ""},
		{"not bound", "", "10.0.2.5:1", false, "wg.way"},
		{"not bound, IPv6", "", "[fd00:2::5]:1", false, "wg.way"},
		{"not bound, translated", "", "10.96.0.2:1", false, "wg.way"},
		{"not bound, translated IPv6", "", "[fd00:96::2]:1", false, "wg.way"},
		{"not bound, by another device", "", "10.0.2.7:1", false, "wg2.way"},
		{"not bound, by another route", "", "10.0.2.6:1", false, ""},
		{"from the port of a device", "192.0.2.1:51820", "10.0.2.5:1", true, "eth0"},
		{"from the port of the other device", "192.0.2.1:51821", "10.0.2.5:1", true, "eth0"},
		{"to an address of UnencryptedHosts", "", "10.0.2.9:1", true, "eth0"},
		{"to an IPv6 address of UnencryptedHosts", "", "[fd00:2::9]:1", true, "eth0"},
		{"from an address of UnencryptedHosts", "192.0.2.77:0", "10.0.2.5:1", true, "eth0"},
		{"to an address that is not encrypted", "", "10.0.2.33:1", true, "eth0"},
		{"to a node that does not encrypt", "", "10.0.3.5:1", true, "eth0"},
	} {
		err := node.Do(func() error { return sendDatagram(tt.from, tt.to, tt.bound) })
		if tt.device == "" {
			require.ErrorIs(t, err, unix.EPERM, tt.name)
			require.Empty(t, devices(), tt.name)
			continue
		}
		require.NoError(t, err, tt.name)
		require.Equal(t, []string{tt.device}, devices(), tt.name)
	}
	require.NoError(t, workload.NS.Do(func() error { return sendDatagram("", "10.0.2.6:1", false) }))
	require.Eventually(t, func() bool { return slices.Equal(devices(), []string{"eth0"}) }, 5*time.Second,
		10*time.Millisecond, "forwarded")
}

// linkLocal returns the link-local address of an interface, with port 0.
func linkLocal(t *testing.T, ns *netns.NS, name string) (address string) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		link, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		list, err := link.Addrs()
		for _, a := range list {
			if ip := a.(*net.IPNet).IP; ip.IsLinkLocalUnicast() {
				address = fmt.Sprintf("[%s%%%s]:0", ip, name)
			}
		}
		return err
	}))
	require.NotEmpty(t, address)
	return address
}

// sendDatagram sends a datagram. If from is not empty, it is the source. If bound is set, the
// socket is bound to eth0. If nftables drops the datagram, the error is EPERM.
func sendDatagram(from, to string, bound bool) error {
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if bound {
			controlErr := raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), "eth0") })
			err = errors.Join(err, controlErr)
		}
		return err
	}}
	if from != "" {
		address, err := net.ResolveUDPAddr("udp", from)
		if err != nil {
			return err
		}
		dialer.LocalAddr = address
	}
	conn, err := dialer.Dial("udp", to)
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte("hello"))
	return errors.Join(err, conn.Close())
}

// If HostEncryption ends and RequireEncryption stays, the first change of the table removes this
// node's addresses from the set own.
func TestHostsLeaveOwnSetAtOnce(t *testing.T) {
	ns := nstest.New(t)
	hosts := prefixes("192.0.2.1/32")
	cfg := Config{NetNS: ns.FD(), RequireEncryption: true, HostEncryption: true, Devices: []Device{{}}}.withDefaults()
	f := filter{cfg: &cfg}
	require.NoError(t, f.apply(t.Context(), filterPrefixes{own: prefixes("10.0.1.0/26", "192.0.2.1/32")}))
	require.NoError(t, f.close())
	cfg.HostEncryption = false
	f = filter{cfg: &cfg}
	t.Cleanup(func() { require.NoError(t, f.close()) })
	own := func() string { return nstest.NFT(t, ns, "", "list", "set", "inet", cfg.FilterTable, "own4") }
	require.NoError(t, f.prepare(t.Context(), filterPrefixes{hosts: hosts}))
	require.Contains(t, own(), "10.0.1.0/26")
	require.NotContains(t, own(), "192.0.2.1")
	require.NoError(t, f.add(t.Context(), filterPrefixes{own: prefixes("10.0.5.0/26"), hosts: hosts}, true))
	require.Contains(t, own(), "10.0.1.0/26")
	require.Contains(t, own(), "10.0.5.0/26")
	require.NotContains(t, own(), "192.0.2.1")
}
