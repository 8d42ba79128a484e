// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"bytes"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// A route exists only while the neighbour and FDB entries of its gateway exist, and no rule leads
// to a table without its routes.
func TestOrderOfChanges(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{})
	k.k = k.another(routes.KeeperConfig{Tables: []uint32{100}})
	m := routes.MAC{2, 0, 0, 0, 0, 1}
	device := routes.VXLAN{
		Name: "vx", VNI: 9, Port: 4789, Local: addr("192.0.2.1"), MAC: [6]byte{2, 0, 0, 0, 0, 9}, MTU: 1400,
	}
	objects := []routes.Object{
		routes.Rule{Family: 4, Priority: 50, Table: 100},
		routes.Rule{Family: 6, Priority: 50, Table: 100},
		routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "vx", Gateway: addr("10.0.0.1"), OnLink: true},
		routes.Route{Dst: prefix("fd01::/64"), Interface: "vx", Gateway: addr("fd00::1"), OnLink: true},
		routes.Neighbour{Addr: addr("10.0.0.1"), Interface: "vx", MAC: m},
		routes.Neighbour{Addr: addr("fd00::1"), Interface: "vx", MAC: m},
		routes.FDB{MAC: m, Dst: addr("192.0.2.2"), Interface: "vx"},
	}
	count := func(lines []string, part string) int {
		return len(lines) - len(slices.DeleteFunc(lines, func(line string) bool {
			return strings.Contains(line, part)
		}))
	}
	state := func() (rules, ways, entries int) {
		rules = count(k.lines("rule"), "proto 219") + count(k.lines("-6 rule"), "proto 219")
		entries = count(k.lines("neigh show nud permanent"), "proto 219") +
			count(k.command("bridge fdb show"), " dst 192.0.2.2")
		return rules, len(k.ours("100")), entries
	}
	batches := 0
	check := func() {
		rules, ways, entries := state()
		require.True(t, rules == 0 || ways == 2, "%d rules, %d routes, %d entries", rules, ways, entries)
		require.True(t, ways == 0 || entries == 3, "%d rules, %d routes, %d entries", rules, ways, entries)
	}
	k.k.Faulty(func(conn *rtnl.Conn, b *rtnl.Batch, failed func(i int, err error)) error {
		batches++
		check()
		defer check()
		return conn.Do(b, failed)
	})
	for range 2 {
		k.k.Set(append(objects, device)...)
		k.mustApply()
		rules, ways, entries := state()
		require.Equal(t, []int{2, 2, 3}, []int{rules, ways, entries})
		k.k.Delete(objects...)
		k.mustApply()
		rules, ways, entries = state()
		require.Equal(t, []int{0, 0, 0}, []int{rules, ways, entries})
	}
	require.Equal(t, 2*6, batches)
}

// At any moment, an old rule or the one that replaces it exists, and no rule leads to a table
// without its routes.
func TestRuleIsReplacedWithoutGap(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	k.k = k.another(routes.KeeperConfig{Tables: []uint32{100}})
	k.k.Set(
		routes.Rule{Family: 4, Priority: 50, Table: 100}, routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"},
	)
	k.mustApply()
	k.k = k.another(routes.KeeperConfig{Tables: []uint32{101, 100}})
	k.k.Set(
		routes.Rule{Family: 4, Priority: 51, Table: 101}, routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"},
	)
	check := func() {
		found := false
		for _, table := range []string{"100", "101"} {
			rule := slices.ContainsFunc(k.lines("rule"), func(line string) bool {
				return strings.Contains(line, "lookup "+table)
			})
			found = found || rule
			require.True(t, !rule || slices.Contains(k.lines("route show table all"),
				"10.1.0.0/24 dev a table "+table+" proto 219 scope link"), "table %s", table)
		}
		require.True(t, found)
	}
	batches := 0
	k.k.Faulty(func(conn *rtnl.Conn, b *rtnl.Batch, failed func(i int, err error)) error {
		batches++
		check()
		defer check()
		return conn.Do(b, failed)
	})
	k.mustApply()
	require.Positive(t, batches)
	ways := k.lines("route show table all")
	require.Contains(t, ways, "10.1.0.0/24 dev a table 101 proto 219 scope link")
	require.NotContains(t, ways, "10.1.0.0/24 dev a table 100 proto 219 scope link")
	rules := k.lines("rule")
	require.True(t, slices.ContainsFunc(rules, func(l string) bool { return strings.Contains(l, "lookup 101") }))
	require.False(t, slices.ContainsFunc(rules, func(l string) bool { return strings.Contains(l, "lookup 100") }))
}

// While prefixes are replaced by shorter or longer ones, an address always has a route.
func TestPrefixIsReplacedWithoutGap(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	whole := routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"}
	halves := []routes.Object{
		routes.Route{Dst: prefix("10.1.0.0/25"), Interface: "a"},
		routes.Route{Dst: prefix("10.1.0.128/25"), Interface: "a"},
	}
	k.k.Set(whole)
	k.mustApply()
	check := func() {
		for _, to := range []string{"10.1.0.1", "10.1.0.129"} {
			require.Contains(t, strings.Join(k.lines("route get %s", to), " "), "dev a")
		}
	}
	k.k.Faulty(func(conn *rtnl.Conn, b *rtnl.Batch, failed func(i int, err error)) error {
		check()
		defer check()
		return conn.Do(b, failed)
	})
	for range 2 {
		k.k.Set(halves...)
		k.k.Delete(whole)
		k.mustApply()
		require.Len(t, k.ours("main"), 2)
		k.k.Delete(halves...)
		k.k.Set(whole)
		k.mustApply()
		require.Len(t, k.ours("main"), 1)
	}
}

// While the kernel refuses a rule, the rules that it replaces stay.
func TestRefusedRuleKeepsOthers(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{})
	old := routes.Rule{Family: 4, Priority: 50, Table: 100}
	k.k.Set(old)
	k.mustApply()
	refuse := true
	k.k.Faulty(func(conn *rtnl.Conn, b *rtnl.Batch, failed func(i int, err error)) error {
		if refuse && bytes.Contains(b.Encoded(), []byte{123, 0, 0, 0}) { // without this, the number of the table
			failed(0, &rtnl.Error{Errno: syscall.ENOMEM})
			return nil
		}
		return conn.Do(b, failed)
	})
	k.k.Delete(old)
	k.k.Set(routes.Rule{Family: 4, Priority: 51, Table: 123})
	for range 2 {
		require.ErrorIs(t, k.k.Apply(t.Context()), syscall.ENOMEM)
		require.Len(t, k.lines("rule show priority 50"), 1)
	}
	refuse = false
	k.mustApply()
	require.Empty(t, k.lines("rule show priority 50"))
	require.Len(t, k.lines("rule show priority 51"), 1)
}

// A blackhole route is deleted after unwanted devices: a packet that arrives at one must not match
// a shorter prefix.
func TestBlackholeOutlivesDevices(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{})
	k.k.Set(
		routes.VXLAN{
			Name: "vx", VNI: 9, Port: 4789, Local: addr("192.0.2.1"), MAC: [6]byte{2, 0, 0, 0, 0, 9}, MTU: 1400,
		},
		routes.Route{Dst: prefix("10.1.0.0/24"), Type: routes.Blackhole},
		routes.Route{Dst: prefix("10.2.0.0/24"), Interface: "vx", Gateway: addr("10.0.0.1"), OnLink: true},
	)
	k.mustApply()
	require.Len(t, k.ours("main"), 2)
	batches := 0
	k.k.Faulty(func(conn *rtnl.Conn, b *rtnl.Batch, failed func(i int, err error)) error {
		batches++
		err := conn.Do(b, failed)
		there := strings.Contains(strings.Join(k.lines("link"), " "), "vx")
		require.Equal(t, there, len(k.ours("main")) == 1)
		return err
	})
	require.NoError(t, k.k.Teardown(t.Context()))
	require.Equal(t, 2, batches)
	require.Empty(t, k.ours("main"))
}

// A route that is Set after the Keeper has read it from the kernel is not written.
func TestFoundRouteIsAdopted(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	found := []routes.Object{
		routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"},
		routes.Route{Dst: prefix("fd01::/64"), Interface: "a"},
	}
	k.k.Set(found...)
	k.mustApply()
	k.k = k.another(routes.KeeperConfig{})
	k.k.Set(routes.Route{Dst: prefix("10.2.0.0/24"), Interface: "a"})
	require.NoError(t, k.k.ApplyAdditions(t.Context()))
	before := k.k.Stats()
	k.k.Set(found...)
	require.NoError(t, k.k.Apply(t.Context()))
	after := k.k.Stats()
	require.Equal(t, uint64(1), before.Added)
	require.Equal(t, [3]uint64{before.Added, before.Replaced, before.Deleted},
		[3]uint64{after.Added, after.Replaced, after.Deleted})
	require.Len(t, k.ours("main"), 3)
}

// A route is added if the kernel has removed it since the Keeper read it, because its interface was
// down.
func TestFoundRouteIsRemovedByKernel(t *testing.T) {
	for name, cfg := range map[string]routes.KeeperConfig{
		"before Apply": {}, "unknown": {UnknownRouteTimeout: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeping(t, cfg, "a")
			k.ip("route add 10.1.0.0/24 dev a proto 219 scope link")
			k.k.Set(routes.Route{Dst: prefix("10.2.0.0/24"), Interface: "a"})
			if cfg.UnknownRouteTimeout > 0 {
				k.mustApply()
			} else {
				require.NoError(t, k.k.ApplyAdditions(t.Context()))
			}
			require.Len(t, k.ours("main"), 2)
			k.ip("link set dev a down")
			k.ip("link set dev a up")
			k.k.Set(routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"})
			k.mustApply()
			require.Len(t, k.ours("main"), 2)
		})
	}
}

// A throw route is deleted after the blackhole route around it.
func TestThrowOutlivesBlackhole(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{})
	k.k = k.another(routes.KeeperConfig{Tables: []uint32{100}})
	objects := []routes.Object{
		routes.Route{Dst: prefix("10.1.0.0/24"), Type: routes.Blackhole, Metric: 1 << 31},
		routes.Route{Dst: prefix("10.1.0.0/32"), Type: routes.Throw},
		routes.Route{Dst: prefix("10.1.0.8/32"), Type: routes.Throw},
	}
	k.k.Set(objects...)
	k.mustApply()
	require.Len(t, k.ours("100"), 3)
	k.k.Delete(objects...)
	var left []string
	k.k.Faulty(func(conn *rtnl.Conn, b *rtnl.Batch, failed func(i int, err error)) error {
		err := conn.Do(b, failed)
		left = append(left, k.ours("100")...)
		return err
	})
	k.mustApply()
	require.Empty(t, k.ours("100"))
	require.NotContains(t, strings.Join(left, "\n"), "blackhole")
}

// ApplyAdditions adds objects, and leaves the removal of unwanted ones to the next Apply. The
// unwanted objects are routes, rules and devices, of this process and of an earlier one. Until the
// next Apply, Watch does not remove them, either.
func TestApplyAdditions(t *testing.T) {
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	device := routes.VXLAN{
		Name: "vx", VNI: 9, Port: 4789, Local: addr("192.0.2.1"), MAC: [6]byte{2, 0, 0, 0, 0, 9}, MTU: 1400,
	}
	earlier := k.another(routes.KeeperConfig{})
	earlier.Set(device, routes.Rule{Family: 4, Priority: 50, Table: 100},
		routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "a"})
	require.NoError(t, earlier.Apply(t.Context()))
	require.NoError(t, earlier.Close())

	own := routes.Route{Dst: prefix("10.2.0.0/24"), Interface: "a"}
	state := func() (routes, rules, devices int) {
		devices = strings.Count(strings.Join(k.lines("link"), " "), "vx")
		return len(k.ours("main")), len(k.lines("rule show priority 50")), devices
	}
	for step, want := range [][3]int{{2, 1, 1}, {2, 1, 1}, {2, 1, 1}, {1, 0, 0}} {
		var err error
		switch step {
		case 0:
			k.k.Set(own)
			err = k.k.ApplyAdditions(t.Context())
		case 1:
			k.watch()
			k.ip("route del 10.2.0.0/24")
			require.Eventually(t, func() bool { return len(k.ours("main")) == 2 }, 10*time.Second, time.Millisecond)
		case 2:
			k.k.Delete(own)
			err = k.k.ApplyAdditions(t.Context())
		case 3:
			k.k.Set(own)
			err = k.k.Apply(t.Context())
		}
		require.NoError(t, err)
		ways, rules, devices := state()
		require.Equal(t, want, [3]int{ways, rules, devices}, step)
	}
}
