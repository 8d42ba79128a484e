// SPDX-License-Identifier: Apache-2.0

package flows_test

import (
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/flows"
	"github.com/wayleave/wayleave/dataplane/nft/nflog"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// logged logs each packet in state new to port 9 and each new ICMP query. Ports 81 and 82 are
// services with the backend 9.
const logged = `table inet t {
	chain nat { type nat hook output priority -100; udp dport { 81, 82 } redirect to :9; }
	chain filter {
		type filter hook output priority 0
		ct state established,related accept
		udp dport 9 log prefix "allow" group 7 accept
		icmp type echo-request log prefix "allow" group 7 accept
	}
}`

// waitTimeout is how long a test waits for the kernel.
const waitTimeout = 20 * time.Second

// kernelTable is a Table that follows the verdict log and connection tracking of a network
// namespace.
type kernelTable struct {
	*flows.Table
	ns       *netns.NS
	conn     *conntrack.Conn
	verdicts chan struct{} // one for each verdict
	ended    chan struct{} // one for each end
}

func newKernelTable(t *testing.T) *kernelTable {
	ns := nstest.New(t)
	require.NoError(t, ns.SetSysctl("net/netfilter/nf_conntrack_acct", "1"))
	nstest.NFT(t, ns, logged, "-f", "-")
	conn, err := conntrack.Dial(conntrack.ConnConfig{NetNS: ns.FD()})
	require.NoError(t, err)
	k := &kernelTable{
		Table: flows.New(flows.Config{}), ns: ns, conn: conn,
		verdicts: make(chan struct{}, 1000), ended: make(chan struct{}, 1000),
	}
	ctx, cancel := context.WithCancel(t.Context())
	started, done := make(chan struct{}, 2), make(chan error, 2)
	go func() {
		done <- conntrack.WatchEnded(ctx, conntrack.WatchConfig{
			NetNS: ns.FD(), Started: func() { started <- struct{}{} },
			Ended: func(f *conntrack.Flow, c conntrack.Counters) {
				k.Ended(f, c)
				k.ended <- struct{}{}
			},
		})
	}()
	go func() {
		done <- nflog.Follow(ctx, nflog.Config{
			Group: 7, NetNS: ns.FD(), Started: func() { started <- struct{}{} },
		}, func(e nflog.Entry) error {
			k.Verdict(flows.Verdict{Key: kernelKey(e.Protocol), Tuple: flows.TupleOf(e), Length: e.Length})
			k.verdicts <- struct{}{}
			return nil
		})
	}()
	for range 2 {
		await(t, started)
	}
	t.Cleanup(func() {
		cancel()
		for range 2 {
			require.ErrorIs(t, <-done, context.Canceled)
		}
		require.NoError(t, conn.Close())
	})
	return k
}

func kernelKey(p policy.Protocol) flows.Key {
	return flows.Key{Protocol: p, Decision: flows.Decision{Allowed: true, Reason: "test"}}
}

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(waitTimeout):
		t.Fatal("the kernel reported nothing")
	}
}

// requireCounts updates the table several times, and requires the same counts each time.
func (k *kernelTable) requireCounts(t *testing.T, want map[flows.Key]flows.Counts) {
	t.Helper()
	for range 5 {
		require.NoError(t, k.Update(t.Context(), k.conn))
		require.Equal(t, want, counts(k.Table))
	}
}

// end ends all n connections.
func (k *kernelTable) end(t *testing.T, n int) {
	t.Helper()
	all, err := k.conn.Flows(t.Context())
	require.NoError(t, err)
	require.Len(t, all, n)
	_, err = k.conn.End(all)
	require.NoError(t, err)
	for range n {
		await(t, k.ended)
	}
}

// listen opens a socket of the namespace.
func (k *kernelTable) listen(t *testing.T, network, address string) (conn net.PacketConn) {
	t.Helper()
	require.NoError(t, k.ns.Do(func() (err error) {
		conn, err = net.ListenPacket(network, address)
		return err
	}))
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// A connection without replies is counted once, and so is each of its packets: when it is sent,
// afterwards, and when the connection ends.
func TestOneWayUDP(t *testing.T) {
	k := newKernelTable(t)
	k.listen(t, "udp4", "127.0.0.1:9")
	conn := k.listen(t, "udp4", "127.0.0.1:5000")
	key := kernelKey(policy.ProtocolUDP)
	var sent flows.Counts
	send := func() {
		_, err := conn.WriteTo(make([]byte, 972), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9})
		require.NoError(t, err)
		await(t, k.verdicts)
		sent.Packets++
		sent.Bytes += 1000
	}
	sent.Connections++
	for range 8 {
		send()
		k.requireCounts(t, map[flows.Key]flows.Counts{key: sent})
	}
	k.end(t, 1)
	k.requireCounts(t, map[flows.Key]flows.Counts{key: sent})
	sent.Connections++
	send()
	k.requireCounts(t, map[flows.Key]flows.Counts{key: sent})
}

// Two connections from one port to two services with the same backend have one tuple for policy,
// and two entries in the kernel.
func TestTwoServicesWithOneBackend(t *testing.T) {
	k := newKernelTable(t)
	k.listen(t, "udp4", "127.0.0.1:9")
	conn := k.listen(t, "udp4", "127.0.0.1:5000")
	var sent flows.Counts
	for port, n := range map[int]int{81: 5, 82: 2} {
		for range n {
			_, err := conn.WriteTo(make([]byte, 972), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
			require.NoError(t, err)
			await(t, k.verdicts)
			sent.Packets++
			sent.Bytes += 1000
		}
		sent.Connections++
	}
	want := map[flows.Key]flows.Counts{kernelKey(policy.ProtocolUDP): sent}
	k.requireCounts(t, want)
	k.end(t, 2)
	k.requireCounts(t, want)
}

// Two pings between the same addresses are two connections. The counts do not change without
// traffic, nor when the connections end.
func TestTwoPings(t *testing.T) {
	k := newKernelTable(t)
	conn := k.listen(t, "ip4:icmp", "127.0.0.1")
	var sent flows.Counts
	for id, n := range map[byte]uint64{1: 20, 2: 3} {
		for i := range n {
			_, err := conn.WriteTo(echo(id, byte(i)), &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)})
			require.NoError(t, err)
		}
		await(t, k.verdicts)
		sent.Connections++
		sent.Packets += n
		sent.ReplyPackets += n
	}
	sent.Bytes, sent.ReplyBytes = 1000*sent.Packets, 1000*sent.Packets
	want := map[flows.Key]flows.Counts{kernelKey(policy.ProtocolICMP): sent}
	k.requireCounts(t, want)
	k.end(t, 2)
	k.requireCounts(t, want)
	require.Equal(t, flows.Stats{Flows: 1}, k.Stats())
}

// echo returns an echo request, of 1,000 bytes with the IP header.
func echo(id, sequence byte) []byte {
	m := make([]byte, 980)
	m[0], m[5], m[7] = 8, id, sequence
	sum := 8<<8 + uint32(id) + uint32(sequence)
	binary.BigEndian.PutUint16(m[2:], ^uint16(sum))
	return m
}
