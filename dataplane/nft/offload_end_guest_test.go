// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package nft_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// fastTable offloads established flows between the interfaces a and b.
const fastTable = `table inet fast {
	flowtable f { hook ingress priority 0; devices = { a, b }; }
	chain forward { type filter hook forward priority 10; ct state established flow add @f; }
}
`

// newOffloaded returns a router that offloads, and a UDP connection through it that is offloaded.
func newOffloaded(t *testing.T) (node *netns.NS, conn net.Conn) {
	t.Helper()
	node = nstest.New(t)
	client := nstest.NewPeer(t, node, "a", "10.0.0.1/24")
	server := nstest.NewPeer(t, node, "b", "10.0.1.1/24")
	require.NoError(t, node.SetSysctl("net/ipv4/ip_forward", "1"))
	nstest.NFT(t, node, fastTable+"table inet decide {\n\tchain forward {\n"+
		"\t\ttype filter hook forward priority 0\n\t\tct state new accept\n\t}\n}\n", "-f", "-")
	nstest.Serve(t, server, "10.0.1.2:80", "server")
	conn, err := nstest.Dial(t, client, "udp", "10.0.1.2:80")
	require.NoError(t, err)
	for range 5 {
		require.True(t, answersWithin(t, conn, patience))
	}
	return node, conn
}

// answersWithin sends a packet, and reports whether an answer comes in time.
func answersWithin(t *testing.T, conn net.Conn, limit time.Duration) bool {
	t.Helper()
	require.NoError(t, conn.SetDeadline(time.Now().Add(limit)))
	_, err := conn.Write([]byte("x"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 100))
	return err == nil
}

// A flow on the fast path does not meet policy, and leaves the fast path as soon as its connection is deleted.
func TestOffloadedFlowEndsWithItsConnection(t *testing.T) {
	node, conn := newOffloaded(t)
	tracked, err := conntrack.Dial(conntrack.ConnConfig{NetNS: node.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, tracked.Close()) }()
	nstest.NFT(t, node, "", "flush chain inet decide forward; add rule inet decide forward drop")
	for range 10 {
		require.True(t, answersWithin(t, conn, patience), "it is offloaded")
	}
	ended, err := tracked.EndHosts(t.Context(), netip.MustParseAddr("10.0.1.2"))
	require.NoError(t, err)
	require.Equal(t, 1, ended)
	for range 30 { // longer than the kernel's cleanup of flows, which runs once a second
		require.False(t, answersWithin(t, conn, 100*time.Millisecond))
	}
}

// A flow loses nothing while the flowtable is replaced.
func TestOffloadIsReplacedWithoutLoss(t *testing.T) {
	node, conn := newOffloaded(t)
	for i := range 30 {
		nstest.NFT(t, node, "delete table inet fast\n"+fastTable, "-f", "-")
		for range 3 {
			require.True(t, answersWithin(t, conn, patience), i)
		}
	}
}
