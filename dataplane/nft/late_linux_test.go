// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// A server that has packets of a client to answer when policy turns against them must not open the way again: its late
// reply looks like the first packet of a connection the other way round. Replies come 300 ms after each packet; the
// protocols are UDP over IPv4 and IPv6, and one without ports.
func TestLateReplyDoesNotRevive(t *testing.T) { nfttest.EachForm(t, testLateReplyDoesNotRevive) }

func testLateReplyDoesNotRevive(t *testing.T, classes render.ClassesConfig) {
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
	for _, p := range pairs {
		require.Eventually(t, func() bool { return p.answers.Load() > 10 }, patience, 10*time.Millisecond, p.network)
	}

	require.NoError(t, d.Apply(t.Context(), dptest.Transition(shop(), narrowed())))
	require.GreaterOrEqual(t, swept(t, d).Ended, uint64(len(pairs)))
	for _, p := range pairs {
		require.Eventually(t, func() bool { // no packet arrives for a second
			before := p.arrived.Load()
			time.Sleep(time.Second)
			return p.arrived.Load() == before
		}, patience, time.Millisecond, "%s goes on; the node tracks %v", p.network, trackedFlows(t, n.node))
	}

	plan, err := d.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Contains(t, plan, "delete table inet wayleave-ended\n")
	require.NoError(t, d.Teardown(t.Context()))
	plan, err = d.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Empty(t, plan)
}

// latePair is a client that sends every 20 ms, and a server that answers late.
type latePair struct {
	network          string
	arrived, answers atomic.Int64
}

func newLatePair(t *testing.T, n *network, network, from, to string) *latePair {
	t.Helper()
	p := &latePair{network: network}
	var server net.PacketConn
	require.NoError(t, n.workloads[1].NS.Do(func() (err error) {
		server, err = net.ListenPacket(network, to)
		return err
	}))
	var client net.PacketConn
	require.NoError(t, n.workloads[0].NS.Do(func() (err error) {
		client, err = net.ListenPacket(network, from)
		return err
	}))
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
				_, _ = client.WriteTo([]byte("hello"), server.LocalAddr())
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done; _ = client.Close(); _ = server.Close() })
	return p
}
