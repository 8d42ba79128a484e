// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/rtnl"
)

func listen(t *testing.T, ns *netns.NS, groups ...rtnl.Group) *rtnl.Monitor {
	t.Helper()
	m, err := rtnl.Listen(rtnl.Config{NetNS: ns.FD()}, groups...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// received returns the events since the last call.
func received(t *testing.T, m *rtnl.Monitor) (events []rtnl.Event) {
	t.Helper()
	missed, err := m.Poll(func(e *rtnl.Event) { events = append(events, *e) })
	require.NoError(t, err)
	require.False(t, missed)
	return events
}

// Each kind of object is reported when it is added and when it is deleted.
func TestMonitor(t *testing.T) {
	ns, _, a := open(t)
	m := listen(t, ns, rtnl.GroupLinks, rtnl.GroupAddresses, rtnl.GroupRoutes, rtnl.GroupNeighbours, rtnl.GroupRules)
	ip(t, ns, "link", "add", "dev", "vx", "type", "vxlan", "id", "7", "dstport", "4789")
	received(t, m)
	prefix := netip.MustParsePrefix
	for what, row := range map[string]struct {
		come, go_ string //nolint:revive // go is taken
		is        func(e rtnl.Event) bool
	}{
		"link": {"link add dev l type veth peer name p", "link del dev l", func(e rtnl.Event) bool {
			return e.Group == rtnl.GroupLinks && e.Link.Name == "l" && e.Link.Kind == "veth"
		}},
		"IPv4 address": {"addr add 192.0.2.1/24 dev a", "addr del 192.0.2.1/24 dev a", func(e rtnl.Event) bool {
			return e.Group == rtnl.GroupAddresses &&
				e.Address == rtnl.Address{Index: a.Index, Prefix: prefix("192.0.2.1/24")}
		}},
		"IPv6 address": {"addr add 2001:db8::1/64 dev a nodad", "addr del 2001:db8::1/64 dev a", func(
			e rtnl.Event,
		) bool {
			return e.Group == rtnl.GroupAddresses &&
				e.Address == rtnl.Address{Index: a.Index, Prefix: prefix("2001:db8::1/64")}
		}},
		"IPv4 route": {"route add blackhole " +
			"10.0.0.0/24 proto 219", "route del blackhole 10.0.0.0/24", func(e rtnl.Event) bool {
			return e.Group == rtnl.GroupRoutes && e.Route.Dst == prefix("10.0.0.0/24") && e.Route.Protocol == protocol
		}},
		"IPv6 route": {"-6 route add 2001:db8:1::/64 " +
			"dev a proto 219", "-6 route del 2001:db8:1::/64 dev a", func(e rtnl.Event) bool {
			return e.Group == rtnl.GroupRoutes && e.Route.Dst == prefix("2001:db8:1::/64") &&
				e.Route.Protocol == protocol
		}},
		"neighbour": {
			"neigh add 10.0.0.1 lladdr 02:00:00:00:00:01 dev a nud permanent protocol 219", "neigh del 10.0.0.1 dev a",
			func(e rtnl.Event) bool {
				return e.Group == rtnl.GroupNeighbours && e.Neighbour.Addr == netip.MustParseAddr("10.0.0.1") &&
					e.Neighbour.Protocol == protocol
			},
		},
		"forward": {"fdb", "fdb", func(e rtnl.Event) bool {
			return e.Group == rtnl.GroupNeighbours && e.Neighbour.MAC == rtnl.MAC{2, 0, 0, 0, 0, 9} &&
				e.Neighbour.Forward && e.Neighbour.Addr == netip.MustParseAddr("192.0.2.9")
		}},
		"rule": {"rule add to 10.0.0.0/8 lookup 100 priority 77", "rule del priority 77", func(e rtnl.Event) bool {
			return e.Group == rtnl.GroupRules && e.Rule.Priority == 77 && e.Rule.To == prefix("10.0.0.0/8")
		}},
	} {
		run := func(command, fdb string) {
			if command == "fdb" {
				bridge(t, ns, "fdb "+fdb+" 02:00:00:00:00:09 dev vx dst 192.0.2.9")
			} else {
				ip(t, ns, strings.Fields(command)...)
			}
		}
		// The kernel reports some changes later, for example of IPv6 addresses.
		await := func(gone bool) {
			is := func(e rtnl.Event) bool { return row.is(e) && e.Gone == gone }
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			for !slices.ContainsFunc(received(t, m), is) {
				require.NoError(t, m.Wait(ctx), what)
			}
		}
		run(row.come, "add")
		await(false)
		run(row.go_, "del")
		await(true)
	}
}

func bridge(t *testing.T, ns *netns.NS, args string) {
	t.Helper()
	var out []byte
	require.NoError(t, ns.Do(func() (err error) {
		out, err = exec.Command("bridge", strings.Fields(args)...).CombinedOutput()
		return err
	}), "bridge %s: %s", args, out)
}

// With Ignore, changes by a connection are not reported, except those of links and addresses.
func TestMonitorIgnoresOwnChanges(t *testing.T) {
	ns, conn, a := open(t)
	ip(t, ns, "link", "add", "dev", "vx", "type", "vxlan", "id", "7", "dstport", "4789", "local", "192.0.2.1")
	ip(t, ns, "link", "set", "dev", "vx", "up")
	vx, err := conn.Link("vx")
	require.NoError(t, err)
	m := listen(t, ns, rtnl.GroupLinks, rtnl.GroupAddresses, rtnl.GroupRoutes)
	require.NoError(t, m.Ignore(conn.Port()))
	require.NoError(t, do(conn, (*rtnl.Batch).AddRoute, route("10.0.0.1/32", a.Index)))
	ip(t, ns, "addr", "add", "192.0.2.1/32", "dev", "a")
	require.NoError(t, conn.ChangeVXLAN(vx.Index, netip.MustParseAddr("192.0.2.2")))
	ip(t, ns, "route", "add", "blackhole", "10.0.0.2/32")
	var groups []rtnl.Group
	for _, e := range received(t, m) {
		groups = append(groups, e.Group)
		if e.Group == rtnl.GroupRoutes {
			require.NotEqual(t, netip.MustParsePrefix("10.0.0.1/32"), e.Route.Dst)
		}
	}
	require.Contains(t, groups, rtnl.GroupLinks)
	require.Contains(t, groups, rtnl.GroupAddresses)
	require.Contains(t, groups, rtnl.GroupRoutes, "the route of another process")
}

// A port that is removed from a bridge is not reported as a deleted link.
func TestMonitorIgnoresBridgePorts(t *testing.T) {
	ns, _, a := open(t)
	m := listen(t, ns, rtnl.GroupLinks)
	ip(t, ns, "link", "add", "dev", "bridge0", "type", "bridge")
	ip(t, ns, "link", "set", "dev", "a", "master", "bridge0")
	ip(t, ns, "link", "set", "dev", "a", "nomaster")
	for _, e := range received(t, m) {
		require.False(t, e.Gone && e.Link.Index == a.Index)
	}
}

// A poll returns all earlier events up to a large number, and reports whether events were lost.
func TestMonitorOverflow(t *testing.T) {
	ns, _, _ := open(t)
	m := listen(t, ns, rtnl.GroupLinks, rtnl.GroupAddresses)
	flap := func(times int) {
		var batch strings.Builder
		for i := range times {
			fmt.Fprintf(&batch, "link set dev lo mtu %d\n", 1500+i%2)
		}
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(batch.String())
		require.NoError(t, ns.Do(cmd.Run))
	}
	flap(100)
	require.GreaterOrEqual(t, len(received(t, m)), 100)
	require.Empty(t, received(t, m))

	flap(20_000)
	missed, err := m.Poll(func(*rtnl.Event) {})
	require.NoError(t, err)
	require.True(t, missed)
	flap(1)
	require.NotEmpty(t, received(t, m), "later events")
}

// Wait returns when an event can be polled or its context ends. An ended context does not end the
// next Wait.
func TestMonitorWait(t *testing.T) {
	ns, _, _ := open(t)
	m := listen(t, ns, rtnl.GroupLinks)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Wait(ctx) }()
		require.Empty(t, received(t, m), "a poll does not queue behind it")
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)

		go func() { ended <- m.Wait(t.Context()) }()
		require.NoError(t, ns.Down("lo"))
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(10 * time.Second):
			require.FailNow(t, "no event")
		}
		require.NoError(t, ns.Up("lo"))
		require.NoError(t, m.Wait(t.Context()), "the event is not polled yet")
		require.NotEmpty(t, received(t, m))
	}
}
