// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		n := newNode(t, routes.Config{}, "wl1", "wl2", "wl3", "eth0")
		n.ip("addr add 192.0.2.1/24 dev eth0") // the address of the kit's node
		n.ip("addr add 2001:db8::1/64 dev eth0 nodad")
		return conformance.Harness{
			NoIPIP: !kernelHasIPIP(t),
			Open: func(*testing.T) dataplane.Dataplane {
				n.restart()
				return n.dp
			},
			Dump: func(*testing.T) string {
				return strings.Join(append(n.routes("all"), n.neighbours()...), "\n")
			},
			Damage: func(*testing.T) {
				n.dp.ResetDisputes() // the kit resyncs too often
				n.ip("route del 10.99.0.1")
				n.ip("-6 neigh del fd00:99::2 dev wl2")
				n.ip("route add 10.99.0.77 dev wl1 proto 219")
			},
			Fault: func(t *testing.T) (heal func()) {
				require.NoError(t, n.ns.Down("wl3"))
				return func() { require.NoError(t, n.ns.Up("wl3")) }
			},
			Spoil: func(s dptest.State) policy.Key {
				bad := update("a0", "none", mac, "10.99.0.50", "fd00:99::50")
				s.Endpoints[bad.Key] = bad.Endpoint
				return bad.Key
			},
			Foreign: func(t *testing.T) func() {
				n.ip("route add 10.98.0.1 dev wl1 proto static")
				n.ip("-6 route add fd00:98::1 dev wl2 proto static")
				n.ip("route add 10.98.0.2 dev wl1 proto 219 table 100")
				n.ip("neigh add 10.98.0.1 lladdr %s dev wl1", mac)
				return func() {
					all := append(n.routes("all"), n.neighbours()...)
					require.Subset(t, all, []string{
						"10.98.0.1 wl1 static", "fd00:98::1 wl2 static", "10.98.0.2 wl1 219", "10.98.0.1 wl1 " + mac,
					})
				}
			},
		}
	})
}

// The plan consists of commands. A shell that runs them reaches the same state as Apply.
func TestPlanIsCommands(t *testing.T) {
	batches := [][]dataplane.Event{
		{
			update("a", "cali1", mac, "10.0.0.1", "2001:db8::1"), update("b", "cali2", "", "10.0.0.2", "2001:db8::2"),
			inSync,
		},
		{update("a", "cali2", mac, "10.0.0.1"), update("b", "cali2", mac, "10.0.0.2", "2001:db8::3")},
		{update("a", "cali2", "02:00:00:00:00:02", "10.0.0.1"), gone("b")},
		{gone("a")},
	}
	for _, tables := range [][]uint32{nil, {100}, {254, 100}} {
		cfg := routes.Config{Tables: tables, Sysctls: []routes.Sysctl{{Family: 4, Name: "rp_filter", Value: "1"}}}
		applied, planned := newNode(t, cfg, "cali1", "cali2"), newNode(t, cfg, "cali1", "cali2")
		for _, events := range batches {
			// One node gets Plan and Apply, the other the commands. Both have the same state.
			b := dataplane.Batch{Events: events}
			plan, err := applied.dp.Plan(t.Context(), b)
			require.NoError(t, err)
			again, err := applied.dp.Plan(t.Context(), b)
			require.NoError(t, err)
			require.Equal(t, plan, again, "planning changes nothing")
			require.NotEmpty(t, plan)
			for line := range strings.Lines(plan) {
				planned.run(strings.TrimSpace(line))
			}
			applied.must(events...)
			require.Equal(t, applied.routes("all"), planned.routes("all"), plan)
			require.Equal(t, applied.neighbours(), planned.neighbours(), plan)
			planned.wantSysctl("net/ipv4/conf/cali1/rp_filter", "1")
		}
		require.Empty(t, planned.routes("all"))
	}
}

// run runs one line of a plan.
func (n *node) run(line string) {
	n.Helper()
	if setting, ok := strings.CutPrefix(line, "sysctl -w "); ok {
		path, value, ok := strings.Cut(setting, "=")
		require.True(n, ok, line)
		require.NoError(n, n.ns.SetSysctl(path, value))
		return
	}
	require.NoError(n, n.ns.Do(func() error {
		out, err := exec.Command("sh", "-c", line).CombinedOutput()
		require.NoError(n, err, "%s: %s", line, out)
		return nil
	}))
}

// The same holds for tunnels and the routes to other nodes.
func TestNetworkPlanIsCommands(t *testing.T) {
	applied, planned := newNetworkNode(t, routes.Config{}), newNetworkNode(t, routes.Config{})
	state := func(n *keeping) (lines []string) {
		for _, command := range []string{
			"ip -4 route", "ip neigh show nud permanent", "ip -d link show dev vxlan.way",
			"ip -4 addr show dev vxlan.way", "bridge fdb show dev vxlan.way",
		} {
			if strings.HasSuffix(command, "vxlan.way") && !strings.Contains(n.ip("link"), "vxlan.way") {
				continue
			}
			for _, line := range n.command(command) {
				lines = append(lines, regexp.MustCompile(`^\d+: `).ReplaceAllString(line, ""))
			}
		}
		slices.Sort(lines)
		return lines
	}
	for _, events := range [][]dataplane.Event{
		{
			tunnel("here", "10.65.1.0", "66:00:00:00:00:01", "192.0.2.1", true),
			tunnel("there", "10.65.2.0", "66:00:00:00:00:02", "192.0.3.2", false),
			remote("10.65.2.0/26", "there", "192.0.3.2", dataplane.PoolVXLAN, false),
			remote("10.65.3.0/26", "near", "192.0.2.3", dataplane.PoolDirect, false), blackhole("10.65.1.0/26"), inSync,
		},
		{
			tunnel("there", "10.65.2.1", "66:00:00:00:00:03", "192.0.3.3", false),
			remote("10.65.3.0/26", "near", "192.0.2.4", dataplane.PoolDirect, false),
		},
		{tunnel("here", "10.65.1.9", "66:00:00:00:00:09", "192.0.2.1", true), update("a", "cali1", mac, "10.65.1.1")},
		{&dataplane.TunnelRemove{Key: dataplane.TunnelKey{Node: "here", IPVersion: 4}}},
	} {
		plan, err := applied.dp.Plan(t.Context(), dataplane.Batch{Events: events})
		require.NoError(t, err)
		require.NotEmpty(t, plan)
		for line := range strings.Lines(plan) {
			planned.run(strings.TrimSpace(line))
		}
		applied.must(events...)
		require.Equal(t, state(applied), state(planned), plan)
	}
}

func TestTeardownBeforeInSync(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1")
	n.must(update("a", "cali1", mac, "10.0.0.1", "2001:db8::1"), inSync)
	n.ip("route add 10.0.0.9 dev cali1 proto static")
	n.restart()
	require.NoError(t, n.dp.Teardown(t.Context()))
	require.Equal(t, []string{"10.0.0.9 cali1 static"}, n.routes("all"))
	require.Empty(t, n.neighbours())
	// It can be used again.
	n.must(update("a", "cali1", mac, "10.0.0.1"), inSync)
	require.Contains(t, n.routes("main"), "10.0.0.1 cali1 219")
}

// The plan of a teardown names entries of a VXLAN device, and no sysctl of a device that it
// removes.
func TestTeardownPlanOfTunnel(t *testing.T) {
	n := newNetworkNode(t, routes.Config{SysctlFile: filepath.Join(t.TempDir(), "sysctls")})
	n.must(
		tunnel("here", "10.65.1.0", "66:00:00:00:00:01", "192.0.2.1", true),
		tunnel("there", "10.65.2.0", "66:00:00:00:00:02", "192.0.3.2", false), inSync,
	)
	n.restart()
	plan, err := n.dp.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Contains(t, plan, "bridge fdb del 66:00:00:00:00:02 dev vxlan.way dst 192.0.3.2 self permanent\n"+
		"ip link del dev vxlan.way\n")
	require.NotContains(t, plan, "sysctl -w net/ipv4/conf/vxlan.way/")
	for line := range strings.Lines(plan) {
		n.run(strings.TrimSpace(line))
	}
	plan, err = n.dp.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Empty(t, plan)
}

func TestDoneContextChangesNothing(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := n.dp.Apply(ctx, dataplane.Batch{Events: []dataplane.Event{update("a", "cali1", mac, "10.0.0.1"), inSync}})
	require.ErrorIs(t, err, context.Canceled)
	n.must()
	require.Equal(t, []string{"10.0.0.1 cali1 219"}, n.routes("main"), "the desired state was kept")
}

func TestDataplaneReconnectsAfterClose(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1")
	n.must(update("a", "cali1", mac, "10.0.0.1"), inSync)
	require.NoError(t, n.dp.Close())
	require.NoError(t, n.dp.Close())
	require.Len(t, n.routes("main"), 1)
	n.must(gone("a"))
	require.Empty(t, n.routes("main"))
}

// S124: Watch reports when the driver can retry an endpoint that waits for its interface.
func TestWatch(t *testing.T) {
	n := newNode(t, routes.Config{})
	require.ErrorIs(t, n.apply(update("a", "cali1", mac, "10.0.0.1"), inSync), routes.ErrNoInterface)
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- n.dp.Watch(ctx, func(dataplane.Drift) {
			select {
			case changes <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	n.addLinks("cali1")
	n.until(changes, func() bool { return n.dp.Resync(ctx) == nil && len(n.routes("main")) == 1 })
	require.NoError(t, n.ns.Down("cali1"))
	n.until(changes, func() bool { return errors.Is(n.dp.Resync(ctx), routes.ErrInterfaceDown) })
	require.NoError(t, n.ns.Up("cali1"))
	n.until(changes, func() bool { return n.dp.Resync(ctx) == nil && len(n.routes("main")) == 1 })
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// While the set of endpoints at fault is unchanged, Watch reports its repairs and nothing else.
func TestWatchReportsRepairs(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1")
	n.must(update("a", "cali1", mac, "10.0.0.1"), inSync)
	monitor := n.listen(rtnl.GroupRoutes)
	ctx, cancel := context.WithCancel(t.Context())
	drifts, ended := make(chan dataplane.Drift, 10), make(chan error, 1)
	go func() { ended <- n.dp.Watch(ctx, func(d dataplane.Drift) { drifts <- d }) }()
	n.ip("route del 10.0.0.1")
	n.await(monitor, "the route is restored", func() bool { return len(n.routes("main")) == 1 })
	require.Equal(t, dataplane.Drift{
		Backend: "routes", Object: "route 10.0.0.1/32 dev cali1 table 254", Foreign: true, Repaired: true,
	}, <-drifts)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Empty(t, drifts)
}

// until waits for changes until done returns true.
func (n *node) until(changes <-chan struct{}, done func() bool) {
	n.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case <-changes:
			if done() {
				return
			}
		case <-deadline:
			require.FailNow(n, "nothing seen")
		}
	}
}
