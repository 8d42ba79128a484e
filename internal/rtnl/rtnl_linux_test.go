// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/internal/rtnl"
)

func TestMain(m *testing.M) { nstest.Main(m) }

const (
	table    = 254
	protocol = 219
)

// ip runs iproute2's ip in a namespace and returns its output.
func ip(t *testing.T, ns *netns.NS, args ...string) (out string) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		b, err := exec.Command("ip", args...).CombinedOutput()
		out = string(b)
		return err
	}), "ip %s: %s", strings.Join(args, " "), out)
	return out
}

// open makes a namespace with a veth pair "a", "b" in it, and a connection.
func open(t *testing.T) (*netns.NS, *rtnl.Conn, netns.Link) {
	t.Helper()
	ns := nstest.New(t)
	a, _, err := netns.Veth(netns.End{NS: ns, Name: "a"}, netns.End{NS: ns, Name: "b"})
	require.NoError(t, err)
	conn, err := rtnl.Dial(rtnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return ns, conn, a
}

// do makes one change.
func do[T any](conn *rtnl.Conn, change func(*rtnl.Batch, *T), v T) (refused error) {
	var b rtnl.Batch
	change(&b, &v)
	broken := conn.Do(&b, func(_ int, err error) { refused = err })
	return errors.Join(broken, refused)
}

// list returns the routes that match.
func list(conn *rtnl.Conn, f rtnl.RouteFilter) (all []rtnl.Route, err error) {
	err = conn.Routes(f, func() { all = nil }, func(r *rtnl.Route) { all = append(all, *r) })
	return all, err
}

func route(dst string, index int) rtnl.Route {
	r := rtnl.Route{
		Dst: netip.MustParsePrefix(dst), Table: table, Protocol: protocol, Type: rtnl.TypeUnicast, Index: index,
		Scope: rtnl.ScopeLink,
	}
	if r.Dst.Addr().Is6() {
		r.Scope, r.Metric = rtnl.ScopeUniverse, rtnl.DefaultMetric6
	}
	return r
}

func TestRoutes(t *testing.T) {
	ns, conn, a := open(t)
	for family, dst := range map[int]string{4: "10.0.0.1/32", 6: "2001:db8::1/128"} {
		filter := rtnl.RouteFilter{Family: family, Table: table, Protocol: protocol}
		r := route(dst, a.Index)
		require.NoError(t, do(conn, (*rtnl.Batch).AddRoute, r))
		require.ErrorIs(t, do(conn, (*rtnl.Batch).AddRoute, r), rtnl.ErrExist)
		listed, err := list(conn, filter)
		require.NoError(t, err)
		require.Equal(t, []rtnl.Route{r}, listed, "equal to the added route")

		others, err := list(conn, rtnl.RouteFilter{Family: family, Table: table, Protocol: protocol + 1})
		require.NoError(t, err)
		require.Empty(t, others)
		foreign := r
		foreign.Protocol++
		require.ErrorIs(t, do(conn, (*rtnl.Batch).DeleteRoute, foreign), rtnl.ErrNotFound,
			"a route of another protocol is another route")

		require.NoError(t, do(conn, (*rtnl.Batch).DeleteRoute, r))
		require.ErrorIs(t, do(conn, (*rtnl.Batch).DeleteRoute, r), rtnl.ErrNotFound)
		require.ErrorIs(t, do(conn, (*rtnl.Batch).AddRoute, route(dst, 9999)), rtnl.ErrNotFound)
	}
	require.NoError(t, ns.Down("a"))
	err := do(conn, (*rtnl.Batch).AddRoute, route("10.0.0.1/32", a.Index))
	require.ErrorIs(t, err, rtnl.ErrDown)
	var refused *rtnl.Error
	require.ErrorAs(t, err, &refused)
	require.NotEmpty(t, refused.Detail, "the kernel's explanation")
}

// Routes that other programs add with our protocol number can be listed and deleted, whatever their
// attributes.
func TestRoutesOfOtherProgramsCanBeDeleted(t *testing.T) {
	ns, conn, _ := open(t)
	ip(t, ns, "addr", "add", "192.0.2.1/24", "dev", "a")
	for _, line := range []string{
		"route add blackhole 10.1.0.0/24 proto 219",
		"route add default via 192.0.2.7 proto 219 metric 7",
		"route add 10.2.0.0/16 dev a proto 219 tos 4 src 192.0.2.1 mtu 1400",
		"route add 10.3.0.0/16 proto 219 nexthop via 192.0.2.8 dev a nexthop via 192.0.2.9 dev a",
		"-6 route add 2001:db8:1::/48 via fe80::7 dev a proto 219",
		"-6 route add prohibit 2001:db8:2::/48 proto 219 metric 3",
	} {
		ip(t, ns, strings.Fields(line)...)
	}
	total := 0
	for _, family := range []int{4, 6} {
		filter := rtnl.RouteFilter{Family: family, Table: table, Protocol: protocol}
		routes, err := list(conn, filter)
		require.NoError(t, err)
		for _, r := range routes {
			require.NoError(t, do(conn, (*rtnl.Batch).DeleteRoute, r), "%+v", r)
			total++
		}
		routes, err = list(conn, filter)
		require.NoError(t, err)
		require.Empty(t, routes)
	}
	require.Equal(t, 6, total)
}

func TestOtherTables(t *testing.T) {
	_, conn, a := open(t)
	for _, number := range []uint32{100, 70000} {
		for family, dst := range map[int]string{4: "10.0.0.1/32", 6: "2001:db8::1/128"} {
			filter := rtnl.RouteFilter{Family: family, Table: number, Protocol: protocol}
			routes, err := list(conn, filter)
			require.NoError(t, err, "a table that does not exist is empty")
			require.Empty(t, routes)
			r := route(dst, a.Index)
			r.Table = number
			require.NoError(t, do(conn, (*rtnl.Batch).AddRoute, r))
			routes, err = list(conn, filter)
			require.NoError(t, err)
			require.Equal(t, []rtnl.Route{r}, routes)
		}
	}
}

func TestNeighbours(t *testing.T) {
	ns, conn, a := open(t)
	for family, addr := range map[int]string{4: "10.0.0.1", 6: "2001:db8::1"} {
		n := rtnl.Neighbour{
			Addr: netip.MustParseAddr(addr), Index: a.Index, MAC: rtnl.MAC{2, 0, 0, 0, 0, 1},
			State: rtnl.StatePermanent, Protocol: protocol,
		}
		_, err := conn.Neighbour(n.Index, n.Addr, false)
		require.ErrorIs(t, err, rtnl.ErrNotFound)
		require.NoError(t, do(conn, (*rtnl.Batch).AddNeighbour, n))
		require.ErrorIs(t, do(conn, (*rtnl.Batch).AddNeighbour, n), rtnl.ErrExist)
		n.MAC[5] = 2
		require.NoError(t, do(conn, (*rtnl.Batch).ReplaceNeighbour, n))
		got, err := conn.Neighbour(n.Index, n.Addr, false)
		require.NoError(t, err)
		require.Equal(t, n, got)
		require.True(t, got.Static())

		var listed []struct{ Dst, Dev, Lladdr string }
		require.NoError(t,
			json.Unmarshal([]byte(ip(t, ns, "-j", "neigh", "show", "nud", "permanent", "to", addr)), &listed))
		require.Len(t, listed, 1)
		require.Equal(t, "02:00:00:00:00:02", listed[0].Lladdr)

		entries, err := conn.Neighbours(family, protocol, false)
		require.NoError(t, err)
		require.Equal(t, []rtnl.Neighbour{n}, entries)
		entries, err = conn.Neighbours(family, protocol+1, false)
		require.NoError(t, err)
		require.Empty(t, entries)

		require.NoError(t, do(conn, (*rtnl.Batch).DeleteNeighbour, n))
		require.ErrorIs(t, do(conn, (*rtnl.Batch).DeleteNeighbour, n), rtnl.ErrNotFound)
	}
}

// A dump of several messages while another process changes the table is complete or an error. It
// has no route twice.
func TestDumpDuringChanges(t *testing.T) {
	ns, conn, a := open(t)
	const count = 3000
	base := netip.MustParseAddr("10.9.0.0")
	addr := base
	for range count {
		require.NoError(t, do(conn, (*rtnl.Batch).AddRoute, route(addr.String()+"/32", a.Index)))
		addr = addr.Next()
	}
	other, err := rtnl.Dial(rtnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	defer other.Close()
	stop := make(chan struct{})
	var churn sync.WaitGroup
	churn.Go(func() {
		r := route("10.1.0.1/32", a.Index)
		for {
			select {
			case <-stop:
				return
			default:
				_ = do(other, (*rtnl.Batch).AddRoute, r)
				_ = do(other, (*rtnl.Batch).DeleteRoute, r)
			}
		}
	})
	defer churn.Wait()
	defer close(stop)
	complete := 0
	for range 30 {
		routes, err := list(conn, rtnl.RouteFilter{Family: 4, Table: table, Protocol: protocol})
		if err != nil {
			require.ErrorIs(t, err, rtnl.ErrInterrupted)
			continue
		}
		complete++
		seen := map[netip.Prefix]bool{}
		for _, r := range routes {
			require.False(t, seen[r.Dst], "%s twice", r.Dst)
			seen[r.Dst] = true
		}
		delete(seen, netip.MustParsePrefix("10.1.0.1/32"))
		require.Len(t, seen, count)
	}
	t.Logf("%d of 30 dumps complete", complete)
}

// A rule with an attribute that Rule does not have is marked, so that it differs from all desired
// rules.
func TestRuleWithUnknownAttributeIsMarked(t *testing.T) {
	ns, conn, _ := open(t)
	const ours = "219"
	ip(t, ns, "rule", "add", "from", "10.0.0.0/8", "table", "7", "priority", "1", "protocol", ours)
	ip(t, ns, "rule", "add", "from", "10.0.0.0/8", "ipproto", "tcp", "table", "7", "priority", "2", "protocol", ours)
	rules, err := conn.Rules(4, protocol)
	require.NoError(t, err)
	extra := map[uint32]bool{}
	for _, r := range rules {
		extra[r.Priority] = r.Extra
	}
	require.Equal(t, map[uint32]bool{1: false, 2: true}, extra)
}

func TestDialFails(t *testing.T) {
	_, err := rtnl.Dial(rtnl.Config{NetNS: 9999})
	require.Error(t, err)
}

// Lookup returns the route to an address. For an address of the node, the type is local. Without a
// route, Lookup fails or returns another type.
func TestLookup(t *testing.T) {
	ns, conn, a := open(t)
	for own, link := range map[string]string{
		"192.0.2.1/32": "lo", "2001:db8::1/128": "lo", "192.0.2.2/24": "a", "2001:db8::2/64": "a",
	} {
		require.NoError(t, ns.AddAddr(link, netip.MustParsePrefix(own)))
	}
	for _, dst := range []string{"10.1.0.0/16", "fd00:1::/64"} {
		require.NoError(t, do(conn, (*rtnl.Batch).AddRoute, route(dst, a.Index)))
	}
	for _, to := range []string{"10.1.2.3", "fd00:1::7", "192.0.2.9", "2001:db8::9"} {
		r, err := conn.Lookup(netip.MustParseAddr(to))
		require.NoError(t, err, to)
		require.Equal(t, a.Index, r.Index, to)
		require.EqualValues(t, rtnl.TypeUnicast, r.Type, to)
	}
	for _, to := range []string{"192.0.2.1", "2001:db8::1", "127.0.0.1", "::1"} {
		require.Eventually(t, func() bool { // the kernel adds the local route of an IPv6 address later
			r, err := conn.Lookup(netip.MustParseAddr(to))
			return err == nil && r.Type == rtnl.TypeLocal
		}, 20*time.Second, time.Millisecond, to)
	}
	for _, to := range []string{"198.51.100.1", "fd00:2::1"} {
		r, err := conn.Lookup(netip.MustParseAddr(to))
		require.True(t, err != nil || r.Type != rtnl.TypeUnicast, "%s: %v", to, r)
	}
}
