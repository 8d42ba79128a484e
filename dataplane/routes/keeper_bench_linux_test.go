// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// benchNode is a namespace with an interface "a".
func benchNode(b *testing.B) (*netns.NS, netns.Link) {
	b.Helper()
	ns := nstest.New(b)
	a, _, err := netns.Veth(netns.End{NS: ns, Name: "a"}, netns.End{NS: ns, Name: "b"})
	require.NoError(b, err)
	return ns, a
}

func benchKeeper(b *testing.B, ns *netns.NS) *routes.Keeper {
	b.Helper()
	k, err := routes.NewKeeper(routes.KeeperConfig{NetNS: ns.FD()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, k.Close()) })
	return k
}

// benchRoutes returns n host routes over the interface.
func benchRoutes(n int) []routes.Object {
	list := make([]routes.Object, n)
	addr := netip.MustParseAddr("10.0.0.1")
	for i := range list {
		list[i] = routes.Route{Dst: netip.PrefixFrom(addr, 32), Interface: "a"}
		addr = addr.Next()
	}
	return list
}

// BenchmarkAddRoutes compares a Keeper that adds routes with the encoded messages, sent in one
// system call, alternately.
func BenchmarkAddRoutes(b *testing.B) {
	const n = 10_000
	b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
		other, a := benchNode(b) // without a monitor
		ns, _ := benchNode(b)
		k := benchKeeper(b, ns)
		require.NoError(b, k.Apply(b.Context()))
		list := benchRoutes(n)
		var raw rtnl.Batch
		for _, o := range list {
			raw.AddRoute(&rtnl.Route{
				Dst: o.(routes.Route).Dst, Table: routes.DefaultTable, Protocol: routes.DefaultProtocol + 1,
				Type: rtnl.TypeUnicast, Scope: rtnl.ScopeLink, Index: a.Index,
			})
		}
		leastRaw, leastKept := time.Hour, time.Hour
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			leastRaw = min(leastRaw, sendRaw(b, other, raw.Encoded()))
			require.NoError(b, other.Do(func() error {
				return exec.Command("ip", "route", "flush", "proto", fmt.Sprint(routes.DefaultProtocol+1)).Run()
			}))
			b.StartTimer()
			start := time.Now()
			k.Set(list...)
			require.NoError(b, k.Apply(b.Context()))
			leastKept = min(leastKept, time.Since(start))
			b.StopTimer()
			require.EqualValues(b, 0, k.Stats().Failing)
			k.Delete(list...)
			require.NoError(b, k.Apply(b.Context()))
			b.StartTimer()
		}
		b.ReportMetric(leastRaw.Seconds()*1e3, "raw-ms")
		b.ReportMetric(leastKept.Seconds()*1e3, "min-ms")
		b.ReportMetric(leastKept.Seconds()/leastRaw.Seconds(), "x-raw")
	})
}

// sendRaw sends messages in one system call, waits for the last answer and returns the elapsed
// time.
func sendRaw(b *testing.B, ns *netns.NS, messages []byte) (took time.Duration) {
	b.Helper()
	require.NoError(b, ns.Do(func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, len(messages)+1<<20); err != nil {
			return err
		}
		answer := make([]byte, 4096)
		start := time.Now()
		if err := unix.Sendto(fd, messages, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return err
		}
		_, _, err = unix.Recvfrom(fd, answer, 0)
		took = time.Since(start)
		return err
	}))
	return took
}

// BenchmarkAdopt measures the first Apply of a Keeper with a kernel that has all routes already.
func BenchmarkAdopt(b *testing.B) {
	const n = 65_536
	b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
		ns, _ := benchNode(b)
		list := benchRoutes(n)
		first := benchKeeper(b, ns)
		first.Set(list...)
		require.NoError(b, first.Apply(b.Context()))
		least := time.Hour
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			k, err := routes.NewKeeper(routes.KeeperConfig{NetNS: ns.FD()})
			require.NoError(b, err)
			k.Set(list...)
			b.StartTimer()
			start := time.Now()
			require.NoError(b, k.Apply(b.Context()))
			least = min(least, time.Since(start))
			b.StopTimer()
			require.Zero(b, k.Stats().Added+k.Stats().Replaced+k.Stats().Deleted)
			require.NoError(b, k.Close())
			b.StartTimer()
		}
		b.ReportMetric(least.Seconds()*1e3, "min-ms")
	})
}

// BenchmarkOneRoute measures the addition and removal of one route among many.
func BenchmarkOneRoute(b *testing.B) {
	const n = 65_536
	b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
		ns, _ := benchNode(b)
		k := benchKeeper(b, ns)
		k.Set(benchRoutes(n)...)
		require.NoError(b, k.Apply(b.Context()))
		one := routes.Route{Dst: netip.MustParsePrefix("192.0.2.1/32"), Interface: "a"}
		b.ReportAllocs()
		for b.Loop() {
			k.Set(one)
			if err := k.Apply(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			k.Delete(one)
			require.NoError(b, k.Apply(b.Context()))
			b.StartTimer()
		}
	})
}
