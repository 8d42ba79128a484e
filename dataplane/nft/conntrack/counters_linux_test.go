// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// tracking is a table that makes the kernel track connections.
const tracking = "table inet t { chain c { type filter hook output priority 0; ct state new accept; }; }"

// The counters of a flow equal those of the kernel, during the flow and at its end.
func TestCounters(t *testing.T) {
	ns := nstest.New(t)
	require.NoError(t, ns.SetSysctl("net/netfilter/nf_conntrack_acct", "1"))
	nstest.NFT(t, ns, tracking, "-f", "-")
	type counted struct {
		flow     conntrack.Flow
		counters conntrack.Counters
	}
	ended, started := make(chan counted, 100), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- conntrack.WatchEnded(ctx, conntrack.WatchConfig{
			NetNS: ns.FD(), Started: func() { close(started) },
			Ended: func(f *conntrack.Flow, c conntrack.Counters) { ended <- counted{*f, c} },
		})
	}()
	<-started

	var server net.PacketConn
	var client net.Conn
	require.NoError(t, ns.Do(func() (err error) {
		if server, err = net.ListenPacket("udp", "127.0.0.1:7"); err == nil {
			client, err = net.Dial("udp", "127.0.0.1:7")
		}
		return err
	}))
	defer func() { require.NoError(t, server.Close()) }()
	defer func() { require.NoError(t, client.Close()) }()
	buf := make([]byte, 100)
	for range 3 {
		_, err := client.Write([]byte("0123456789"))
		require.NoError(t, err)
		_, from, err := server.ReadFrom(buf)
		require.NoError(t, err)
		_, err = server.WriteTo([]byte("0123"), from)
		require.NoError(t, err)
		_, err = client.Read(buf)
		require.NoError(t, err)
	}
	const headers = 28 // of IPv4 and UDP
	want := conntrack.Counters{
		OriginalPackets: 3, OriginalBytes: 3 * (headers + 10), ReplyPackets: 3, ReplyBytes: 3 * (headers + 4),
	}
	conn, err := conntrack.Dial(conntrack.ConnConfig{NetNS: ns.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	found := map[string]conntrack.Counters{}
	var flows []conntrack.Flow
	note := func(f *conntrack.Flow, c conntrack.Counters) {
		found[f.Original.String()] = c
		flows = append(flows, *f)
	}
	require.NoError(t, conn.EachCounted(t.Context(), func() { clear(found) }, note))
	name := "17 " + client.LocalAddr().String() + " > 127.0.0.1:7"
	require.Equal(t, map[string]conntrack.Counters{name: want}, found)
	_, err = conn.End(flows)
	require.NoError(t, err)
	select {
	case got := <-ended:
		require.Equal(t, name, got.flow.Original.String())
		require.Equal(t, want, got.counters)
	case <-time.After(10 * time.Second):
		t.Fatal("the end of the flow was not reported")
	}
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

// A watcher reports that it missed notifications.
func TestMissedEnds(t *testing.T) {
	ns := nstest.New(t)
	require.NoError(t, ns.SetSysctl("net/netfilter/nf_conntrack_acct", "1"))
	nstest.NFT(t, ns, tracking, "-f", "-")
	missed, entered, leave := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	started, done := make(chan struct{}), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		done <- conntrack.WatchEnded(ctx, conntrack.WatchConfig{
			NetNS: ns.FD(), Started: func() { close(started) },
			Ended: func(*conntrack.Flow, conntrack.Counters) {
				select {
				case entered <- struct{}{}:
					<-leave // the queue fills meanwhile
				default:
				}
			},
			Missed: func() { missed <- struct{}{}; cancel() },
		})
	}()
	<-started
	conn, err := conntrack.Dial(conntrack.ConnConfig{NetNS: ns.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	for range 8 {
		require.NoError(t, ns.Do(func() error {
			for port := 1; port < 8000; port++ {
				c, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
				if err != nil {
					return err
				}
				_, _ = c.Write([]byte("x")) // no socket is bound to the port
				_ = c.Close()
			}
			return nil
		}))
		flows, err := conn.Flows(t.Context())
		require.NoError(t, err)
		_, err = conn.End(flows)
		require.NoError(t, err)
	}
	<-entered
	close(leave)
	<-missed
	require.ErrorIs(t, <-done, context.Canceled)
}
