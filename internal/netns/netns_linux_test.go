// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

func links(t *testing.T, ns *netns.NS) (names []string) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		ifaces, err := net.Interfaces()
		for _, i := range ifaces {
			names = append(names, i.Name)
		}
		return err
	}))
	return names
}

func TestNamespacesAreEmptyAndApart(t *testing.T) {
	before, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	// A new namespace has lo and the devices of modules such as ipip.
	fresh := links(t, nstest.New(t))
	require.Contains(t, fresh, "lo")
	var all []*netns.NS
	for range 24 {
		all = append(all, nstest.New(t))
	}
	_, _, err = netns.Veth(netns.End{NS: all[0], Name: "a.100"}, netns.End{NS: all[1], Name: "b"})
	require.NoError(t, err)
	require.ElementsMatch(t, append([]string{"a.100"}, fresh...), links(t, all[0]))
	require.ElementsMatch(t, append([]string{"b"}, fresh...), links(t, all[1]))
	for _, ns := range all[2:] {
		require.Equal(t, fresh, links(t, ns))
	}
	after, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	require.Equal(t, before, after, "the process stays in its namespace")
}

func TestDoReturnsErrors(t *testing.T) {
	ns := nstest.New(t)
	boom := errors.New("boom")
	require.Equal(t, boom, ns.Do(func() error { return boom }))
	require.Error(t, ns.Do(func() error { runtime.Goexit(); return nil }))
	require.NoError(t, ns.Do(func() error { return nil }))
}

func TestDoFromManyGoroutines(t *testing.T) {
	ns := nstest.New(t)
	want, err := inode(ns)
	require.NoError(t, err)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			got, err := inode(ns)
			if err != nil || got != want {
				t.Errorf("in %q (%v), want %q", got, err, want)
			}
		})
	}
	group.Wait()
}

func inode(ns *netns.NS) (name string, err error) {
	err = ns.Do(func() error {
		name, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	})
	return name, err
}

func TestSysctl(t *testing.T) {
	one, two := nstest.New(t), nstest.New(t)
	_, _, err := netns.Veth(netns.End{NS: one, Name: "a.100"}, netns.End{NS: two, Name: "a.100"})
	require.NoError(t, err)
	const name = "net/ipv4/conf/a.100/forwarding"
	before, err := two.Sysctl(name)
	require.NoError(t, err)
	require.NoError(t, two.SetSysctl(name, "0"))
	require.NoError(t, one.SetSysctl(name, "1"))
	value, err := one.Sysctl(name)
	require.NoError(t, err)
	require.Equal(t, "1", value)
	value, err = two.Sysctl(name)
	require.NoError(t, err)
	require.Equal(t, "0", value, "was %s", before)
	require.ErrorIs(t, one.SetSysctl("net/ipv4/conf/none/forwarding", "1"), os.ErrNotExist)
}

// A workload reaches an address of the node with a gateway that no interface has. It sends no ARP
// request and no neighbour solicitation.
func TestWorkloadReachesNode(t *testing.T) {
	node := nstest.New(t)
	w := nstest.NewWorkload(t, node, "cali1", "10.0.0.1", "2001:db8::1")
	require.Equal(t, "cali1", w.Host.Name)
	require.Len(t, w.Link.MAC, 6)
	// The node needs routes to the workload for its response.
	for _, addr := range w.Addresses {
		require.NoError(t, node.AddGateway("cali1", addr, w.Link.MAC))
	}
	for _, target := range []string{"192.0.2.1", "2001:db8:1::1"} {
		addAddr(t, node, "lo", target)
		var listener net.Listener
		require.NoError(t, node.Do(func() (err error) {
			listener, err = net.Listen("tcp", net.JoinHostPort(target, "80"))
			return err
		}))
		answered := make(chan error, 1)
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				_, err = io.WriteString(conn, "hello")
				err = errors.Join(err, conn.Close())
			}
			answered <- err
		}()
		var conn net.Conn
		require.NoError(t, w.NS.Do(func() (err error) {
			conn, err = net.DialTimeout("tcp", net.JoinHostPort(target, "80"), 10*time.Second)
			return err
		}))
		data, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Equal(t, "hello", string(data))
		require.NoError(t, <-answered)
		require.NoError(t, errors.Join(conn.Close(), listener.Close()))
	}
}

func addAddr(t *testing.T, ns *netns.NS, link, addr string) {
	t.Helper()
	a := netip.MustParseAddr(addr)
	require.NoError(t, ns.AddAddr(link, netip.PrefixFrom(a, a.BitLen())))
}

func TestLinkLifeCycle(t *testing.T) {
	ns := nstest.New(t)
	fresh := links(t, ns)
	_, _, err := netns.Veth(netns.End{NS: ns, Name: "a"}, netns.End{NS: ns, Name: "b"})
	require.NoError(t, err)
	require.NoError(t, ns.Down("a"))
	require.NoError(t, ns.Up("a"))
	require.NoError(t, ns.DeleteLink("a"))
	_, err = ns.Link("b")
	require.Error(t, err)
	require.Equal(t, fresh, links(t, ns))
}
