// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// closed is a policy that allows everything to all containers except those with the new owner's
// role.
const closed = `apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: default.open}
spec:
  selector: network == 'net' && role != 'heir'
  types: [Ingress, Egress]
  ingress: [{action: Allow}]
  egress: [{action: Allow}]
---
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: default.closed}
spec: {selector: role == 'heir', types: [Ingress, Egress]}
`

// S168: a container that reuses an address gets no packet of the earlier container's connections.
// The new container uses the same port as the earlier one, and the peer continues to send from its
// port.
func TestReusedAddressHasNoOldConnections(t *testing.T) {
	const packets = 200
	r := newRig(t)
	require.NoError(t, os.WriteFile(r.path("manifests/policy.yaml"), []byte(closed), 0o600))
	peer, old, heir := nstest.New(t), nstest.New(t), nstest.New(t)
	r.startAgent()
	r.must("add", peer, "10.0.0.2/32")
	r.must("add", old, "10.0.0.1/32")
	here, there := bind(t, peer, "10.0.0.2:4000"), bind(t, old, "10.0.0.1:5000")
	require.True(t, passes(t, here, there, waitTimeout), "to the first owner")
	require.True(t, passes(t, there, here, waitTimeout), "back")
	require.True(t, passes(t, here, there, waitTimeout))

	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		sent := 0
		defer func() { stopped <- sent }()
		for ; sent < 1_000_000; sent++ {
			select {
			case <-stop:
				return
			default:
				_, _ = here.WriteTo([]byte("on"), there.LocalAddr()) // there may be no route
				runtime.Gosched()
			}
		}
	}()
	r.must("del", old, "")
	r.role = "heir"
	r.configure("1.0.0")
	r.must("add", heir, "10.0.0.1/32")
	next := bind(t, heir, "10.0.0.1:5000")
	for range packets {
		_, _ = here.WriteTo([]byte("on"), next.LocalAddr())
		_, _ = next.WriteTo([]byte("on"), here.LocalAddr())
	}
	require.False(t, arrives(t, next, 250*time.Millisecond), "packets of the peer")
	require.False(t, arrives(t, here, 250*time.Millisecond), "packets of the new owner")
	close(stop)
	t.Logf("%d packets from the peer while the address changed hands, %d each way afterwards", <-stopped, packets)
	for _, container := range []*netns.NS{heir, peer} {
		r.must("del", container, "")
	}
	r.stopAgent()
}

// bind opens a UDP socket in a container.
func bind(t *testing.T, ns *netns.NS, address string) (conn net.PacketConn) {
	t.Helper()
	require.NoError(t, ns.Do(func() (err error) { conn, err = net.ListenPacket("udp4", address); return err }))
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// passes reports whether a packet gets from one socket to another.
func passes(t *testing.T, from, to net.PacketConn, timeout time.Duration) bool {
	t.Helper()
	_, err := from.WriteTo([]byte("hello"), to.LocalAddr())
	require.NoError(t, err)
	return arrives(t, to, timeout)
}

func arrives(t *testing.T, at net.PacketConn, timeout time.Duration) bool {
	t.Helper()
	require.NoError(t, at.SetReadDeadline(time.Now().Add(timeout)))
	_, _, err := at.ReadFrom(make([]byte, 16))
	return err == nil
}
