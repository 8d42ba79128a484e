// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Workloads reach each other through the node with only the objects that the dataplane programs, in
// both families.
func TestWorkloadsReachEachOther(t *testing.T) {
	n := newNode(t, routes.Config{ForwardAllIPv6: true})
	n.unset("net/ipv4/conf/all/forwarding", "net/ipv4/conf/default/forwarding", "net/ipv6/conf/all/forwarding")
	a := nstest.NewWorkload(t, n.ns, "cali1", "10.0.0.1", "2001:db8::1")
	b := nstest.NewWorkload(t, n.ns, "cali2", "10.0.0.2", "2001:db8::2")
	n.must(event("a", a), event("b", b), inSync)
	for i, from := range a.Addresses {
		exchange(t, a.NS, from.String(), b.NS, b.Addresses[i].String())
		exchange(t, b.NS, b.Addresses[i].String(), a.NS, from.String())
	}
}

func event(name string, w *netns.Workload) *dataplane.EndpointUpdate {
	return &dataplane.EndpointUpdate{Key: key(name), Endpoint: &dataplane.Endpoint{
		Interface: w.Host.Name, MAC: w.Link.MAC.String(), Addresses: w.Addresses,
	}}
}

// exchange makes a TCP connection, over which the server sends the address of the client.
func exchange(t *testing.T, client *netns.NS, from string, server *netns.NS, to string) {
	t.Helper()
	var listener net.Listener
	require.NoError(t, server.Do(func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(to, "0"))
		return err
	}))
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			defer conn.Close()
			_, err = io.WriteString(conn, conn.RemoteAddr().(*net.TCPAddr).IP.String())
		}
		served <- err
	}()
	var conn net.Conn
	require.NoError(t, client.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", listener.Addr().String(), 10*time.Second)
		return err
	}))
	defer conn.Close()
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, from, string(answer))
	require.NoError(t, <-served)
}
