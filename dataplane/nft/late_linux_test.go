// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// When policy begins to deny a connection, the server may not have answered some packets yet. Its
// late reply looks like the first packet of a connection in the other direction, and must not open
// one. Replies come 300 ms after each packet. The protocols are UDP over IPv4 and IPv6, and one
// without ports.
func TestLateReplyOpensNoConnection(t *testing.T) {
	nfttest.EachForm(t, testLateReplyOpensNoConnection)
}

func testLateReplyOpensNoConnection(t *testing.T, classes render.ClassesConfig) {
	one, two := workloadAddrs(0), workloadAddrs(1)
	port := func(a netip.Addr) string { return netip.AddrPortFrom(a, 5400).String() }
	n := newNetwork(t)
	d := ender(t, n.node, classes, conntrack.Config{})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	pairs := []*latePair{
		newLatePair(t, n, "udp4", port(one[0]), port(two[0])),
		newLatePair(t, n, "udp6", port(one[1]), port(two[1])),
		newLatePair(t, n, "ip4:253", one[0].String(), two[0].String()),
	}
	// DCCP has ports. Kernels that track it, up to Linux 6.15, treat these packets as invalid.
	if _, err := n.node.Sysctl("net/netfilter/nf_conntrack_dccp_loose"); err != nil {
		pairs = append(pairs, newLatePair(t, n, "ip4:33", one[0].String(), two[0].String()))
	}
	for _, p := range pairs {
		require.Eventually(t, func() bool { return p.answers.Load() > 10 }, waitTimeout, 10*time.Millisecond, p.network)
	}

	require.NoError(t, d.Apply(t.Context(), dptest.Transition(shop(), narrowed())))
	require.GreaterOrEqual(t, swept(t, d).Ended, uint64(len(pairs)))
	for _, p := range pairs {
		requireSilence(t, n, p)
	}

	plan, err := d.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Contains(t, plan, "delete table inet wayleave-ended\n")
	require.NoError(t, d.Teardown(t.Context()))
	plan, err = d.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Empty(t, plan)
}

// S168: an address moves to an endpoint that may not send to the server. A late packet to its
// former owner must not open a connection for the new one.
func TestLatePacketToNewOwner(t *testing.T) { nfttest.EachForm(t, testLatePacketToNewOwner) }

func testLatePacketToNewOwner(t *testing.T, classes render.ClassesConfig) {
	one, two := workloadAddrs(0), netip.AddrPortFrom(workloadAddrs(1)[0], 5400)
	address := netip.AddrPortFrom(one[0], 5400)
	n := newNetwork(t)
	d := ender(t, n.node, classes, conntrack.Config{})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	p := newLatePair(t, n, "udp4", address.String(), two.String())
	require.Eventually(t, func() bool { return p.answers.Load() > 10 }, waitTimeout, 10*time.Millisecond)

	mute := policy.Key{Kind: policy.KindPolicy, Namespace: "test", Name: "mute"}
	after := edit(shop(), "way1", func(e *dataplane.Endpoint) { e.Addresses = one[1:] })
	after.Policies[mute] = &dataplane.Policy{Tier: "default", Egress: []dataplane.Rule{
		{ID: "tcp", Action: policy.Allow, Protocol: policy.ProtocolTCP},
	}}
	after = edit(after, "way3", func(e *dataplane.Endpoint) {
		e.Addresses = append([]netip.Addr{address.Addr()}, e.Addresses...)
		e.Egress = []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{mute}}}
	})
	newOwner := n.workloads[2]
	require.NoError(t, newOwner.NS.AddAddr(newOwner.Link.Name, netip.PrefixFrom(address.Addr(), 32)))
	require.NoError(t, n.node.Do(func() error {
		link, err := netlink.LinkByName(newOwner.Host.Name)
		if err != nil {
			return err
		}
		to := net.IPNet{IP: address.Addr().AsSlice(), Mask: net.CIDRMask(32, 32)}
		return errors.Join(
			netlink.NeighSet(&netlink.Neigh{
				LinkIndex: link.Attrs().Index, IP: to.IP, HardwareAddr: newOwner.Link.MAC, State: netlink.NUD_PERMANENT,
			}),
			netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: &to}),
		)
	}))
	send(t, listen(t, newOwner.NS, "udp4", address.String()), net.UDPAddrFromAddrPort(two))
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(shop(), after)))
	require.NotZero(t, d.ConntrackStats().EndedAddresses)
	requireSilence(t, n, p)
}

// Teardown removes all tables, also if a sweep is pending.
func TestTeardownWhileConnectionsEnd(t *testing.T) {
	n := newNetwork(t)
	reached, tornDown := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() {
		close(reached)
		<-tornDown
	})
	hooks := conntrack.Hooks{Ending: func(*conntrack.Flow) { once() }}
	d := ender(t, n.node, render.ClassesConfig{}, conntrack.Config{EndRate: 1, Hooks: hooks})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	server := netip.AddrPortFrom(workloadAddrs(1)[0], 5400).String()
	var pairs []*latePair
	for i := range 3 {
		from := netip.AddrPortFrom(workloadAddrs(0)[0], uint16(5400+i)).String()
		pairs = append(pairs, newLatePair(t, n, "udp4", from, server))
		server = netip.AddrPortFrom(workloadAddrs(1)[0], uint16(5401+i)).String()
	}
	for _, p := range pairs {
		require.Eventually(t, func() bool { return p.answers.Load() > 0 }, waitTimeout, 10*time.Millisecond)
	}
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(shop(), narrowed())))
	<-reached
	require.NoError(t, d.Teardown(t.Context()))
	close(tornDown)
	require.NoError(t, d.Close())
	require.Empty(t, nstest.NFT(t, n.node, "", "list", "tables"))
}

// requireSilence waits until no packet of the client arrives for a second.
func requireSilence(t *testing.T, n *network, p *latePair) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := p.arrived.Load()
		time.Sleep(time.Second)
		return p.arrived.Load() == before
	}, waitTimeout, time.Millisecond, "%s still receives packets; the node tracks %v",
		p.network, trackedFlows(t, n.node))
}

func listen(t *testing.T, ns *netns.NS, network, address string) (conn net.PacketConn) {
	t.Helper()
	require.NoError(t, ns.Do(func() (err error) {
		conn, err = net.ListenPacket(network, address)
		return err
	}))
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// send sends a packet every 20 ms until the test ends.
func send(t *testing.T, conn net.PacketConn, to net.Addr) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_, _ = conn.WriteTo([]byte("hello"), to)
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

// latePair is a client that sends every 20 ms, and a server that answers late.
type latePair struct {
	network          string
	arrived, answers atomic.Int64
}

func newLatePair(t *testing.T, n *network, network, from, to string) *latePair {
	t.Helper()
	p := &latePair{network: network}
	server, client := listen(t, n.workloads[1].NS, network, to), listen(t, n.workloads[0].NS, network, from)
	receive := func(conn net.PacketConn, each func(from net.Addr)) {
		buffer := make([]byte, 64)
		for {
			_, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			each(from)
		}
	}
	go receive(server, func(from net.Addr) {
		p.arrived.Add(1)
		time.AfterFunc(300*time.Millisecond, func() { _, _ = server.WriteTo([]byte("late"), from) })
	})
	go receive(client, func(net.Addr) { p.answers.Add(1) })
	send(t, client, server.LocalAddr())
	return p
}
