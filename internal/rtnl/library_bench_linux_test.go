// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// bench is a namespace with a veth pair "a", "b", and a connection of both libraries.
type bench struct {
	*testing.B
	ns     *netns.NS
	index  int
	conn   *rtnl.Conn
	handle *netlink.Handle
}

func newBench(b *testing.B) *bench {
	b.Helper()
	ns := nstest.New(b)
	a, _, err := netns.Veth(netns.End{NS: ns, Name: "a"}, netns.End{NS: ns, Name: "b"})
	require.NoError(b, err)
	conn, err := rtnl.Dial(rtnl.Config{NetNS: ns.FD()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, conn.Close()) })
	handle, err := conn.Handle()
	require.NoError(b, err)
	return &bench{B: b, ns: ns, index: a.Index, conn: conn, handle: handle}
}

func (b *bench) do(batch *rtnl.Batch) {
	require.NoError(b, b.conn.Do(batch, func(i int, err error) { b.Fatal(i, err) }))
}

func (b *bench) ip(args ...string) {
	require.NoError(b, b.ns.Do(exec.Command("ip", args...).Run))
}

// host returns the address with a number in 10.0.0.0/8.
func host(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// route returns the route to a host.
func (b *bench) route(i int) *rtnl.Route {
	return &rtnl.Route{
		Dst: netip.PrefixFrom(host(i), 32), Table: table, Protocol: protocol, Type: rtnl.TypeUnicast, Index: b.index,
		Scope: rtnl.ScopeLink,
	}
}

// compare measures the same work with this package and with vishvananda/netlink. setUp returns
// both, and undo, which is not measured.
func compare(b *testing.B, setUp func(b *bench) (hand, library func() error, undo func())) {
	b.Helper()
	for _, by := range []string{"hand", "library"} {
		b.Run("by="+by, func(b *testing.B) {
			t := newBench(b)
			hand, library, undo := setUp(t)
			work := hand
			if by == "library" {
				work = library
			}
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, work())
				b.StopTimer()
				undo()
				b.StartTimer()
			}
		})
	}
}

func nothing() {}

// BenchmarkAdd1000Routes adds 1,000 host routes.
func BenchmarkAdd1000Routes(b *testing.B) {
	compare(b, func(b *bench) (hand, library func() error, undo func()) {
		hand = func() error {
			var batch rtnl.Batch
			for i := range 1000 {
				batch.AddRoute(b.route(i))
			}
			b.do(&batch)
			return nil
		}
		library = func() error {
			for i := range 1000 {
				err := b.handle.RouteAdd(&netlink.Route{
					Dst:   &net.IPNet{IP: host(i).AsSlice(), Mask: net.CIDRMask(32, 32)},
					Scope: netlink.SCOPE_LINK, LinkIndex: b.index, Protocol: protocol, Table: table,
				})
				if err != nil {
					return err
				}
			}
			return nil
		}
		return hand, library, func() { b.ip("route", "flush", "proto", strconv.Itoa(protocol)) }
	})
}

// BenchmarkAdd1000Neighbours adds 1,000 permanent entries.
func BenchmarkAdd1000Neighbours(b *testing.B) {
	compare(b, func(b *bench) (hand, library func() error, undo func()) {
		hand = func() error {
			var batch rtnl.Batch
			for i := range 1000 {
				batch.AddNeighbour(&rtnl.Neighbour{
					Addr: host(i), Index: b.index, MAC: rtnl.MAC{2}, State: rtnl.StatePermanent, Protocol: protocol,
				})
			}
			b.do(&batch)
			return nil
		}
		library = func() error {
			for i := range 1000 {
				err := b.handle.NeighAdd(&netlink.Neigh{
					LinkIndex: b.index, IP: host(i).AsSlice(), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 0},
					State: rtnl.StatePermanent,
				})
				if err != nil {
					return err
				}
			}
			return nil
		}
		return hand, library, func() { b.ip("neigh", "flush", "dev", "a", "nud", "permanent") }
	})
}

// BenchmarkAdd100Rules adds 100 policy routing rules.
func BenchmarkAdd100Rules(b *testing.B) {
	compare(b, func(b *bench) (hand, library func() error, undo func()) {
		hand = func() error {
			var batch rtnl.Batch
			for i := range 100 {
				batch.AddRule(&rtnl.Rule{
					Family: 4, Priority: uint32(100 + i), From: netip.PrefixFrom(host(i), 32), Table: table,
					Action: rtnl.RuleLookup, Protocol: protocol,
				})
			}
			b.do(&batch)
			return nil
		}
		library = func() error {
			for i := range 100 {
				rule := netlink.NewRule()
				rule.Priority, rule.Table, rule.Protocol = 100+i, table, protocol
				rule.Src = &net.IPNet{IP: host(i).AsSlice(), Mask: net.CIDRMask(32, 32)}
				if err := b.handle.RuleAdd(rule); err != nil {
					return err
				}
			}
			return nil
		}
		return hand, library, func() { b.ip("rule", "flush", "protocol", strconv.Itoa(protocol)) }
	})
}

// BenchmarkList10000Routes lists the 10,000 routes of a protocol among 20,000 in a table.
func BenchmarkList10000Routes(b *testing.B) {
	compare(b, func(b *bench) (hand, library func() error, undo func()) {
		var batch rtnl.Batch
		for i := range 20_000 {
			r := b.route(i)
			r.Protocol += uint8(i % 2)
			batch.AddRoute(r)
		}
		b.do(&batch)
		hand = func() error {
			n := 0
			f := rtnl.RouteFilter{Family: 4, Table: table, Protocol: protocol}
			err := b.conn.Routes(f, func() { n = 0 }, func(*rtnl.Route) { n++ })
			require.Equal(b, 10_000, n)
			return err
		}
		require.NoError(b, b.handle.SetStrictCheck(true)) // for the kernel to filter
		library = func() error {
			list, err := b.handle.RouteListFiltered(netlink.FAMILY_V4,
				&netlink.Route{Table: table, Protocol: protocol}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
			require.Len(b, list, 10_000)
			return err
		}
		return hand, library, nothing
	})
}

// BenchmarkList10000Neighbours lists 10,000 permanent entries.
func BenchmarkList10000Neighbours(b *testing.B) {
	compare(b, func(b *bench) (hand, library func() error, undo func()) {
		var batch rtnl.Batch
		for i := range 10_000 {
			batch.AddNeighbour(&rtnl.Neighbour{
				Addr: host(i), Index: b.index, MAC: rtnl.MAC{2}, State: rtnl.StatePermanent, Protocol: protocol,
			})
		}
		b.do(&batch)
		hand = func() error {
			list, err := b.conn.Neighbours(4, protocol, false)
			require.Len(b, list, 10_000)
			return err
		}
		library = func() error {
			list, err := b.handle.NeighList(0, netlink.FAMILY_V4)
			require.Len(b, list, 10_000)
			return err
		}
		return hand, library, nothing
	})
}

// BenchmarkListLinks lists 203 links and their addresses.
func BenchmarkListLinks(b *testing.B) {
	compare(b, func(b *bench) (hand, library func() error, undo func()) {
		for i := range 100 {
			name := strconv.Itoa(i)
			_, _, err := netns.Veth(netns.End{NS: b.ns, Name: "x" + name}, netns.End{NS: b.ns, Name: "y" + name})
			require.NoError(b, err)
			require.NoError(b, b.ns.AddAddr("x"+name, netip.PrefixFrom(host(i), 32)))
		}
		hand = func() error {
			var l rtnl.Links
			return l.Read(b.conn, time.Time{})
		}
		library = func() error {
			if _, err := b.handle.LinkList(); err != nil {
				return err
			}
			_, err := b.handle.AddrList(nil, netlink.FAMILY_ALL)
			return err
		}
		return hand, library, nothing
	})
}

// BenchmarkLookup finds the route to an address.
func BenchmarkLookup(b *testing.B) {
	compare(b, func(b *bench) (hand, library func() error, undo func()) {
		var batch rtnl.Batch
		batch.AddRoute(b.route(7))
		b.do(&batch)
		hand = func() error {
			_, err := b.conn.Lookup(host(7))
			return err
		}
		library = func() error {
			_, err := b.handle.RouteGet(host(7).AsSlice())
			return err
		}
		return hand, library, nothing
	})
}
