// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// keeping is a node with a Keeper.
type keeping struct {
	*node
	k *routes.Keeper
}

func newKeeping(t *testing.T, cfg routes.KeeperConfig, interfaces ...string) *keeping {
	k := &keeping{node: newNode(t, routes.Config{}, interfaces...)}
	k.k = k.another(cfg)
	for _, table := range []string{"100", "70000"} { // ip does not list tables that do not exist
		k.ip("route add blackhole 203.0.113.0/24 proto static table %s", table)
		k.ip("-6 route add blackhole 2001:db8:ffff::/48 proto static table %s", table)
	}
	return k
}

// another returns another Keeper for the same namespace.
func (k *keeping) another(cfg routes.KeeperConfig) *routes.Keeper {
	k.Helper()
	cfg.NetNS = k.ns.FD()
	keeper, err := routes.NewKeeper(cfg)
	require.NoError(k, err)
	k.Cleanup(func() { require.NoError(k, keeper.Close()) })
	return keeper
}

func (k *keeping) mustApply() {
	k.Helper()
	require.NoError(k, k.k.Apply(k.Context()))
}

// lines returns the output of a command of ip, line by line, without the spaces at the ends.
func (k *keeping) lines(command string, args ...any) (lines []string) {
	k.Helper()
	for line := range strings.Lines(k.ip(command, args...)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// ours returns the routes with our protocol as ip lists them.
func (k *keeping) ours(table string) []string {
	k.Helper()
	return append(k.lines("-4 route show proto 219 table %s", table),
		k.lines("-6 route show proto 219 table %s", table)...)
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// ip lists every kind of route as it was Set. Another Keeper adopts it without a change, and
// removes it.
func TestKeeperRoutes(t *testing.T) {
	for name, row := range map[string]struct {
		route routes.Route
		want  string // as ip lists it
	}{
		"on the link": {routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"}, "10.1.0.0/24 dev a scope link"},
		"gateway": {
			routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a", Gateway: addr("192.0.2.2")},
			"10.1.0.0/24 via 192.0.2.2 dev a",
		},
		"gateway, interface by its address": {
			routes.Route{Dst: prefix("10.1.0.0/24"), Gateway: addr("192.0.2.2")}, "10.1.0.0/24 via 192.0.2.2 dev a",
		},
		"onlink": {
			routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "b", Gateway: addr("198.51.100.1"), OnLink: true},
			"10.1.0.0/24 via 198.51.100.1 dev b onlink",
		},
		"metric, source and MTU": {
			routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a", Metric: 7, Source: addr("192.0.2.1"), MTU: 1300},
			"10.1.0.0/24 dev a scope link src 192.0.2.1 metric 7 mtu 1300",
		},
		"host bits": {routes.Route{Dst: prefix("10.1.0.7/24"), Interface: "a"}, "10.1.0.0/24 dev a scope link"},
		"default": {
			routes.Route{Dst: prefix("0.0.0.0/0"), Interface: "a", Metric: 9}, "default dev a scope link metric 9",
		},
		"blackhole":   {routes.Route{Dst: prefix("10.1.0.0/24"), Type: routes.Blackhole}, "blackhole 10.1.0.0/24"},
		"unreachable": {routes.Route{Dst: prefix("10.1.0.0/24"), Type: routes.Unreachable}, "unreachable 10.1.0.0/24"},
		"unreachable with a metric": {
			routes.Route{Dst: prefix("10.1.0.0/24"), Type: routes.Unreachable, Metric: 5},
			"unreachable 10.1.0.0/24 metric 5",
		},

		"IPv6 on the link": {
			routes.Route{Dst: prefix("fd01::/64"), Interface: "a"}, "fd01::/64 dev a metric 1024 pref medium",
		},
		"IPv6 gateway": {
			routes.Route{Dst: prefix("fd01::/64"), Gateway: addr("2001:db8::2"), MTU: 1400},
			"fd01::/64 via 2001:db8::2 dev a metric 1024 mtu 1400 pref medium",
		},
		"IPv6 onlink": {
			routes.Route{Dst: prefix("fd01::/64"), Interface: "b", Gateway: addr("fd02::1"), OnLink: true},
			"fd01::/64 via fd02::1 dev b metric 1024 onlink pref medium",
		},
		"IPv6 blackhole": {
			routes.Route{Dst: prefix("fd01::/64"), Type: routes.Blackhole},
			"blackhole fd01::/64 dev lo metric 1024 pref medium",
		},
		"IPv6 unreachable": {
			routes.Route{Dst: prefix("fd01::/64"), Type: routes.Unreachable},
			"unreachable fd01::/64 dev lo metric 1024 pref medium",
		},
	} {
		t.Run(name, func(t *testing.T) {
			testKeeperRoute(t, row.route, row.want)
		})
	}
}

// testKeeperRoute sets and deletes a route in two tables, and checks that another Keeper adopts it.
func testKeeperRoute(t *testing.T, r routes.Route, want string) {
	t.Helper()
	k := newKeeping(t, routes.KeeperConfig{Tables: []uint32{100, 70000}}, "a", "b")
	k.ip("addr add 192.0.2.1/24 dev a")
	k.ip("addr add 2001:db8::1/64 dev a nodad")
	for _, table := range []string{"100", "70000"} {
		if table == "70000" {
			r.Table = 70000
		}
		require.Empty(t, k.ours(table))
		k.k.Set(r)
		k.mustApply()
		require.ElementsMatch(t, strings.Split(want, "\n"), k.ours(table))

		other := k.another(routes.KeeperConfig{Tables: []uint32{100, 70000}})
		other.Set(r)
		plan, err := other.Plan(t.Context())
		require.NoError(t, err)
		require.Empty(t, plan)
		require.NoError(t, other.Apply(t.Context()))
		require.NoError(t, other.Resync(t.Context()))
		stats := other.Stats()
		require.Zero(t, stats.Added+stats.Replaced+stats.Deleted, "%+v", stats)

		k.k.Delete(r)
		k.mustApply()
		require.Empty(t, k.ours(table))
	}
}

// Of several routes to one destination, only that of the first class is programmed. The next one
// replaces it without a moment without a route.
func TestFirstClassIsProgrammed(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a", "b")
	k.ip("addr add 192.0.2.1/24 dev a")
	dst := prefix("10.0.0.1/32")
	for _, row := range []struct {
		route routes.Route
		want  string
	}{
		{routes.Route{Class: routes.ClassDrop, Type: routes.Blackhole}, "blackhole 10.0.0.1"},
		{routes.Route{Interface: "b"}, "10.0.0.1 dev b scope link"},
		{
			routes.Route{Class: routes.ClassTunnel, Interface: "b", Gateway: addr("10.9.0.1"), OnLink: true},
			"10.0.0.1 via 10.9.0.1 dev b onlink",
		},
		{routes.Route{Class: routes.ClassDirect, Gateway: addr("192.0.2.8")}, "10.0.0.1 via 192.0.2.8 dev a"},
		{routes.Route{Class: routes.ClassLocalWorkload, Interface: "a"}, "10.0.0.1 dev a scope link"},
	} {
		row.route.Dst = dst
		k.k.Set(row.route)
		k.mustApply()
		require.Equal(t, []string{row.want}, k.ours("main"))
	}
	stats := k.k.Stats()
	require.EqualValues(t, 1, stats.Added)
	require.EqualValues(t, 4, stats.Replaced)
	require.Equal(t, 5, stats.Routes)
	// A route of a later class is not programmed, also if it changes or is deleted.
	k.k.Set(routes.Route{Dst: dst, Class: routes.ClassDirect, Gateway: addr("192.0.2.9")})
	k.k.Delete(routes.Route{Dst: dst, Class: routes.ClassTunnel})
	k.mustApply()
	require.Equal(t, []string{"10.0.0.1 dev a scope link"}, k.ours("main"))
	k.k.Delete(routes.Route{Dst: dst, Class: routes.ClassLocalWorkload})
	k.mustApply()
	require.Equal(t, []string{"10.0.0.1 via 192.0.2.9 dev a"}, k.ours("main"))
	// Another metric is another route.
	k.k.Set(routes.Route{Dst: dst, Interface: "b", Metric: 3})
	k.mustApply()
	require.Equal(t, []string{"10.0.0.1 via 192.0.2.9 dev a", "10.0.0.1 dev b scope link metric 3"}, k.ours("main"))
	require.NoError(t, k.k.Teardown(t.Context()))
	require.Empty(t, k.ours("main"))
}

// If a route's replacement cannot be programmed, the old route is deleted, because it has another
// target.
func TestRouteThatCannotBeReplacedIsDeleted(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a", "b")
	k.k.Set(routes.Route{Dst: prefix("10.0.0.1/32"), Interface: "a"},
		routes.Route{Dst: prefix("10.0.0.2/32"), Interface: "a"})
	k.mustApply()
	for _, wrong := range []routes.Route{
		{Interface: "none"},                        // its gateway has no interface
		{Interface: "b", Gateway: addr("1.2.3.4")}, // the kernel refuses it
		{}, // it is invalid
	} {
		wrong.Dst = prefix("10.0.0.1/32")
		k.k.Set(wrong)
		err := k.k.Apply(t.Context())
		var fault *routes.ObjectError
		require.ErrorAs(t, err, &fault)
		require.Equal(t, wrong.Dst, fault.Object.(routes.Route).Dst)
		require.Equal(t, []string{"10.0.0.2 dev a scope link"}, k.ours("main"))
		k.k.Set(routes.Route{Dst: wrong.Dst, Interface: "a"})
		k.mustApply()
		require.Len(t, k.ours("main"), 2)
	}
}

// The Keeper makes no routes with several next hops and no rules with certain conditions. If such
// an object has its protocol number, it replaces the object or deletes it.
func TestKeeperRemovesUnsupportedForms(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a", "b")
	k.ip("addr add 192.0.2.1/24 dev a")
	k.k.Set(routes.Route{Dst: prefix("10.0.0.1/32"), Interface: "a"},
		routes.Route{Dst: prefix("fd00::1/128"), Interface: "a"},
		routes.Rule{Family: 4, Priority: 50, From: prefix("10.0.0.0/8"), Table: 100})
	meddle := func() {
		k.ip("route replace 10.0.0.1 proto 219 nexthop dev a nexthop dev b")
		k.ip("route add 10.0.0.2 proto 219 nexthop dev a nexthop dev b")
		k.ip("-6 route replace fd00::1 proto 219 nexthop via fe80::1 dev a nexthop via fe80::2 dev b")
		k.ip("-6 route add fd00::2 proto 219 nexthop via fe80::1 dev a nexthop via fe80::2 dev b")
		k.ip("rule add not from 10.0.0.0/8 lookup 100 priority 53 protocol 219")
		k.ip("rule add from 10.0.0.0/8 fwmark 1 lookup 100 priority 51 protocol 219")
		k.ip("rule add from 10.0.0.0/8 iif a lookup 100 priority 50 protocol 219")
	}
	for range 2 { // at the start, and while the Keeper runs
		meddle()
		k.mustApply()
		require.Equal(t, []string{"10.0.0.1 dev a scope link", "fd00::1 dev a metric 1024 pref medium"}, k.ours("main"))
		require.Equal(t, []string{"50:	from 10.0.0.0/8 lookup 100 proto 219"},
			slices.DeleteFunc(k.lines("rule"), func(rule string) bool { return !strings.Contains(rule, "219") }))
	}
}

// Neighbours, proxies, forwarding entries and rules are programmed as ip lists them, adopted,
// repaired and swept. Foreign ones stay.
func TestKeeperEntriesAndRules(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	m := routes.MAC{2, 0, 0, 0, 0, 1}
	objects := []routes.Object{
		routes.Neighbour{Addr: addr("10.0.0.1"), Interface: "a", MAC: m},
		routes.Neighbour{Addr: addr("fd00::1"), Interface: "a", MAC: m},
		routes.Proxy{Addr: addr("169.254.1.1"), Interface: "a"},
		routes.Proxy{Addr: addr("fe80::99"), Interface: "a"},
		routes.VXLAN{
			Name: "vx", VNI: 9, Port: 4789, Local: addr("192.0.2.1"), MAC: [6]byte{2, 0, 0, 0, 0, 9}, MTU: 1400,
		},
		routes.FDB{MAC: m, Dst: addr("192.0.2.2"), Interface: "vx"},
		routes.Rule{Family: 4, Priority: 50, From: prefix("10.0.0.0/8"), Table: 100},
		routes.Rule{Family: 6, Priority: 51, To: prefix("fd00::/8"), Table: 70000},
		routes.Rule{Family: 4, Priority: 52, Table: 100},
		routes.Rule{Family: 4, Priority: 53, UDPSourcePort: 51820, Table: 254},
		routes.Rule{Family: 6, Priority: 53, UDPSourcePort: 51821, Local: true, Table: 254},
		routes.Route{Dst: prefix("10.3.0.0/24"), Type: routes.Throw},
		routes.Route{Dst: prefix("fd03::/64"), Type: routes.Throw},
	}
	state := func() (lines []string) {
		for _, command := range []string{
			"neigh show nud permanent", "neigh show proxy", "-6 neigh show proxy", "rule", "-6 rule",
			"route show type throw", "-6 route show type throw",
		} {
			lines = append(lines, k.lines("%s", command)...)
		}
		for _, line := range k.command("bridge fdb show") {
			if strings.Contains(line, " dst ") {
				lines = append(lines, line)
			}
		}
		slices.Sort(lines)
		return lines
	}
	k.ip("neigh add proxy 10.9.9.9 dev a")
	k.ip("rule add from 10.9.9.9 lookup 100 priority 40")
	k.ip("neigh add 10.9.9.9 lladdr 02:00:00:00:00:09 dev a")
	others := []string{
		"10.9.9.9 dev a proxy", "40:	from 10.9.9.9 lookup 100", "10.9.9.9 dev a lladdr 02:00:00:00:00:09 PERMANENT",
	}
	k.k.Set(objects...)
	k.mustApply()
	whole := state()
	for _, line := range append([]string{
		"10.0.0.1 dev a lladdr 02:00:00:00:00:01 PERMANENT proto 219",
		"fd00::1 dev a lladdr 02:00:00:00:00:01 PERMANENT proto 219", "169.254.1.1 dev a proxy proto 219",
		"fe80::99 dev a proxy proto 219", "02:00:00:00:00:01 dev vx dst 192.0.2.2 self permanent",
		"50:	from 10.0.0.0/8 lookup 100 proto 219",
		"51:	from all to fd00::/8 lookup 70000 proto 219",
		"52:	from all lookup 100 proto 219",
	}, others...) {
		require.Contains(t, whole, line)
	}

	// Changes and removals by other processes are repaired without a dump.
	readings := k.k.Stats().Readings
	for _, command := range []string{
		"ip neigh del 10.0.0.1 dev a", "ip neigh replace fd00::1 lladdr 02:00:00:00:00:07 dev a nud permanent",
		"ip rule del priority 50", "ip -6 rule del priority 51",
		"bridge fdb del 02:00:00:00:00:01 dev vx dst 192.0.2.2",
		"bridge fdb add 02:00:00:00:00:05 dev vx dst 192.0.2.5",
		"ip rule add from 10.8.8.8 lookup 100 priority 41 protocol 219",
	} {
		k.command(command)
		require.NotEqual(t, whole, state(), command)
		k.mustApply()
		require.Equal(t, whole, state(), command)
	}
	require.Equal(t, readings, k.k.Stats().Readings)
	k.command("ip neigh del proxy 169.254.1.1 dev a") // without a notification
	require.NoError(t, k.k.Resync(t.Context()))
	require.Equal(t, whole, state())

	// Another Keeper adopts and sweeps.
	other := k.another(routes.KeeperConfig{})
	other.Set(objects...)
	plan, err := other.Plan(t.Context())
	require.NoError(t, err)
	require.Empty(t, plan)
	other.Delete(objects[0], objects[2], objects[5], objects[6])
	plan, err = other.Plan(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{
		"ip rule del from 10.0.0.0/8 lookup 100 priority 50 protocol 219",
		"ip neigh del 10.0.0.1 dev a", "ip neigh del proxy 169.254.1.1 dev a",
		"bridge fdb del 02:00:00:00:00:01 dev vx dst 192.0.2.2 self permanent",
	}, strings.Split(strings.TrimSpace(plan), "\n"))
	require.NoError(t, other.Apply(t.Context()))
	require.Len(t, state(), len(whole)-4)
	require.NoError(t, other.Teardown(t.Context()))
	left := strings.Join(state(), "\n")
	require.NotContains(t, left, "219")
	for _, line := range others {
		require.Contains(t, left, line)
	}
	require.NotContains(t, k.ip("link"), "vx")
}

// command runs a command of iproute2 on the node and returns its output like lines.
func (k *keeping) command(command string) (lines []string) {
	k.Helper()
	require.NoError(k, k.ns.Do(func() error {
		words := strings.Fields(command)
		out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			lines = append(lines, strings.TrimSpace(line))
		}
		return err
	}), "%s: %s", command, lines)
	return lines
}

// The kernel has the same rule once for each protocol: ours is added and removed beside a foreign
// one.
func TestForeignRuleStays(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{})
	k.ip("rule add from 10.0.0.0/8 lookup 100 priority 50")
	r := routes.Rule{Family: 4, Priority: 50, From: prefix("10.0.0.0/8"), Table: 100}
	wrong := routes.Rule{Family: 5, Table: 100}
	k.k.Set(r, wrong)
	require.ErrorIs(t, k.k.Apply(t.Context()), routes.ErrObject)
	const theirs, ours = "50:	from 10.0.0.0/8 lookup 100", "50:	from 10.0.0.0/8 lookup 100 proto 219"
	require.Subset(t, k.lines("rule"), []string{theirs, ours})
	k.k.Delete(r, wrong)
	k.mustApply()
	require.Contains(t, k.lines("rule"), theirs)
	require.NotContains(t, k.lines("rule"), ours)

	k.ip("rule add from 10.1.0.0/16 lookup 100 priority 60") // from a notification, without a dump
	k.mustApply()
	require.Contains(t, k.lines("rule"), "60:	from 10.1.0.0/16 lookup 100")
}

// A rule with Goto skips others. A rule with neither Goto nor a table does nothing. Both are
// restored.
func TestRulesWithGotoAndWithoutTable(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{Tables: []uint32{100, 254}}, "a", "b")
	k.k.Set(
		routes.Rule{Family: 4, Priority: 50, From: prefix("192.0.2.0/24"), Goto: 52},
		routes.Rule{Family: 4, Priority: 51, Table: 100}, routes.Rule{Family: 4, Priority: 52},
		routes.Rule{Family: 6, Priority: 50, From: prefix("fd00::/8"), Goto: 53}, // the target does not exist
		routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a", Table: 100},
		routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "b", Table: 254},
	)
	k.ip("addr add 192.0.2.1/32 dev b")
	k.ip("addr add 198.51.100.1/32 dev b")
	for _, command := range []string{"", "rule del priority 50", "rule del priority 52", "-6 rule del priority 50"} {
		if command != "" {
			k.ip(command)
		}
		k.mustApply()
		require.Equal(t, []string{
			"0:	from all lookup local", "50:	from 192.0.2.0/24 goto 52 proto 219",
			"51:	from all lookup 100 proto 219", "52:	from all nop proto 219", "32766:	from all lookup main",
			"32767:	from all lookup default",
		}, k.lines("rule"), command)
		six := k.lines("-6 rule show priority 50")
		require.Equal(t, []string{"50:	from fd00::/8 goto 53 [unresolved] proto 219"}, six)
		require.Contains(t, k.lines("route get 10.1.0.1 from 192.0.2.1")[0], "dev b")
		require.Contains(t, k.lines("route get 10.1.0.1 from 198.51.100.1")[0], "dev a")
	}
}

// A rule with our protocol and a condition for which Rule has no field is unwanted: it is removed.
func TestKeeperRemovesRuleWithOtherConditions(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{})
	k.ip("rule add from 10.0.0.0/8 ipproto tcp lookup 100 priority 50 protocol 219")
	k.mustApply()
	require.Empty(t, k.lines("rule show priority 50"))
}

// If notifications are lost, everything is read again, and a route that was deleted meanwhile is
// restored.
func TestKeeperReadsAgainAfterLostNotifications(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	k.k.Set(routes.Route{Dst: prefix("10.0.0.1/32"), Interface: "a"})
	k.mustApply()
	conn, err := rtnl.Dial(rtnl.Config{NetNS: k.ns.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	var flood rtnl.Batch
	theirs := rtnl.Route{Dst: prefix("198.51.100.0/24"), Table: 254, Protocol: 4, Type: rtnl.TypeBlackhole}
	for range 20_000 {
		flood.AddRoute(&theirs)
		flood.DeleteRoute(&theirs)
	}
	require.NoError(t, conn.Do(&flood, func(_ int, err error) { require.NoError(t, err) }))
	k.ip("route del 10.0.0.1")
	k.mustApply()
	require.EqualValues(t, 1, k.k.Stats().Missed)
	require.Equal(t, []string{"10.0.0.1 dev a scope link"}, k.ours("main"))
}

// Watch restores objects that another process removes, removes objects that it adds with our
// number, and counts both.
func TestKeeperWatchRepairs(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a", "b")
	m := k.listen(rtnl.GroupRoutes, rtnl.GroupLinks)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.k.Watch(ctx, nil) }()
	defer func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}()
	k.k.Set(routes.Route{Dst: prefix("10.0.0.1/32"), Interface: "a"},
		routes.Route{Dst: prefix("fd00::1/128"), Interface: "a"})
	require.Empty(t, k.ours("main"), "nothing before Apply")
	k.mustApply()
	want := []string{"10.0.0.1 dev a scope link", "fd00::1 dev a metric 1024 pref medium"}
	require.Equal(t, want, k.ours("main"))
	for _, command := range []string{
		"route del 10.0.0.1", "-6 route del fd00::1", "route replace 10.0.0.1 dev b proto 219",
		"-6 route replace fd00::1 dev b proto 219", "route change 10.0.0.1 dev a proto 219 mtu 1300",
		"route add 10.0.0.9 dev a proto 219", "-6 route append fd00::1 via fe80::1 dev b proto 219",
		"route append 10.0.0.1 dev b proto 219", "route prepend 10.0.0.1 dev b proto 219",
		"route add 10.0.0.1 dev b tos 4 proto 219",
	} {
		k.ip("%s", command)
		start := time.Now()
		k.await(m, command, func() bool { return slices.Equal(want, k.ours("main")) })
		t.Logf("%s: repaired after %s", command, time.Since(start).Round(time.Microsecond))
	}
	repaired := k.k.Stats().Repaired
	require.GreaterOrEqual(t, repaired, uint64(2))

	// A foreign route instead of ours stays. When it is deleted, ours is added.
	k.ip("route replace 10.0.0.1 dev b proto static")
	require.ErrorIs(t, k.k.Apply(t.Context()), routes.ErrForeign)
	require.Contains(t, k.ip("route"), "10.0.0.1 dev b proto static")
	k.ip("route del 10.0.0.1 dev b proto static")
	k.await(m, "another's route goes", func() bool { return slices.Equal(want, k.ours("main")) })
	k.mustApply()
}

// A route that a CNI plugin made with our number stays for some time, until its endpoint is added.
func TestKeeperUnknownRouteTimeout(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{UnknownRouteTimeout: time.Minute}, "a")
	now := time.Unix(1e9, 0)
	k.k.SetClock(func() time.Time { return now })
	k.ip("route add 10.0.0.1 dev a proto 219")
	k.ip("route add blackhole 10.1.0.0/16 proto 219")
	k.ip("route add 10.2.0.0/16 via 10.0.0.9 dev a onlink proto 219")
	k.mustApply()
	require.Equal(t, []string{"10.0.0.1 dev a scope link"}, k.ours("main"),
		"a route without an interface, or with a gateway, is removed at once")
	now = now.Add(time.Minute)
	k.addLinks("b")
	k.ip("route add 10.0.0.2 dev b proto 219")
	k.mustApply()
	require.Equal(t, []string{"10.0.0.2 dev b scope link"}, k.ours("main"))
	k.k.Set(routes.Route{Dst: prefix("10.0.0.2/32"), Interface: "b"},
		routes.Route{Dst: prefix("10.0.0.3/32"), Interface: "b"})
	k.mustApply()
	require.EqualValues(t, 1, k.k.Stats().Added, "adopted")
	k.k.Delete(routes.Route{Dst: prefix("10.0.0.2/32")}, routes.Route{Dst: prefix("10.0.0.3/32")})
	k.mustApply()
	require.Empty(t, k.ours("main"), "a route that is no longer wanted is removed at once")
}

func TestKeeperConfigProblems(t *testing.T) {
	_, err := routes.NewKeeper(routes.KeeperConfig{
		NetNS: -1, Protocol: 4, Tables: []uint32{254, 0, 255}, UnknownRouteTimeout: -1,
	})
	for _, field := range []string{"NetNS", "Protocol", "Tables[1]", "Tables[2]", "UnknownRouteTimeout"} {
		require.ErrorContains(t, err, "routes: KeeperConfig."+field+":")
	}
}

func TestKeeperRefusesUnconfiguredTable(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{Tables: []uint32{100}}, "a")
	k.k.Set(routes.Route{Dst: prefix("10.0.0.1/32"), Interface: "a", Table: 101},
		routes.Route{Dst: prefix("10.0.0.2/32"), Interface: "a"})
	err := k.k.Apply(t.Context())
	require.ErrorIs(t, err, routes.ErrObject)
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok)
	require.Len(t, joined.Unwrap(), 1)
	require.Equal(t, []string{"10.0.0.2 dev a scope link"}, k.ours("100"))
	require.True(t, errors.Is(err, routes.ErrObject))
}

// To adopt existing objects needs almost no memory.
func TestKeeperAdoptionAllocates(t *testing.T) {
	const n = 8192
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	list := benchRoutes(n)
	k.k.Set(list...)
	k.mustApply()
	other := k.another(routes.KeeperConfig{})
	other.Set(list...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, other.Apply(t.Context()))
	runtime.ReadMemStats(&after)
	require.Less(t, float64(after.Mallocs-before.Mallocs)/n, 0.5)
	stats := other.Stats()
	require.Zero(t, stats.Added+stats.Replaced+stats.Deleted)
	require.Equal(t, n, stats.Routes)
}

// Invalid objects are reported, and do not affect others, also if the kernel has a route to the
// same destination.
func TestKeeperInvalidObjects(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	k.ip("route add 10.0.0.1 dev a proto 219")
	k.ip("route add 10.0.0.2 dev a proto 219")
	wrong := []routes.Object{
		routes.Route{},
		routes.Route{Dst: prefix("10.0.0.1/32"), Type: 9},
		routes.Route{Dst: prefix("10.0.0.3/32"), Type: routes.Unreachable, Interface: "a"},
		routes.Route{Dst: prefix("10.0.0.4/32"), Gateway: addr("fe80::1")},
		routes.Route{Dst: prefix("fd00::1/128"), Interface: "a", Source: addr("10.0.0.1")},
		routes.Route{Dst: prefix("10.0.0.5/32"), Interface: "a", MTU: -1},
		routes.Route{Dst: prefix("10.0.0.6/32"), Gateway: addr("10.0.0.1"), OnLink: true},
		routes.Route{Dst: prefix("10.0.0.8/32")},
		routes.Neighbour{Interface: "a"},
		routes.Neighbour{Addr: addr("10.0.0.1"), Interface: "a"},
		routes.Proxy{Interface: "a"},
		routes.FDB{Interface: "a"},
		routes.Rule{Family: 4, Table: 1, Goto: 5},
		routes.Rule{Family: 4, Priority: 5, Goto: 5},
		routes.Rule{Family: 4, Table: 1, From: prefix("fd00::/8")},
		routes.VXLAN{Name: "a/b"},
		routes.Wireguard{Name: "b/a"},
		routes.Setting{Path: "net/../kernel/hostname", Value: "x"},
	}
	k.k.Set(wrong...)
	k.k.Set(routes.Route{Dst: prefix("10.0.0.9/32"), Interface: "a"})
	for range 2 {
		err := k.k.Apply(t.Context())
		joined, ok := err.(interface{ Unwrap() []error })
		require.True(t, ok, "%v", err)
		require.Len(t, joined.Unwrap(), len(wrong), "%v", err)
		for _, e := range joined.Unwrap() {
			require.ErrorIs(t, e, routes.ErrObject)
		}
		require.Equal(t, []string{"10.0.0.9 dev a scope link"}, k.ours("main"))
	}
	k.k.Delete(wrong...)
	k.mustApply()
}
