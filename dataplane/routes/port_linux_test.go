// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
)

// watchTimeout is how long a test waits for Watch.
const watchTimeout = 30 * time.Second

// newPorts makes a node with two interfaces and a bridge, which the configuration names.
func newPorts(t *testing.T, cfg routes.Config) *node {
	t.Helper()
	cfg.Bridges = []string{"br0"}
	n := newNode(t, cfg, "cali1", "cali2")
	n.ip("link add name br0 type bridge")
	n.ip("link set dev br0 up")
	return n
}

// web and db are endpoints at cali1 and cali2.
func webAndDB() []dataplane.Event {
	return []dataplane.Event{
		update("web", "cali1", mac, "10.0.0.1", "2001:db8::1"), update("db", "cali2", mac, "10.0.0.2"),
	}
}

var (
	webRoutes = []string{"10.0.0.1 cali1 219", "2001:db8::1 cali1 219"}
	dbRoutes  = []string{"10.0.0.2 cali2 219"}
)

// S171: an endpoint whose interface is a port of a configured bridge has no route, entry or
// setting, and is not at fault. These are added when the interface leaves the bridge, and removed
// when it joins one.
func TestPorts(t *testing.T) {
	for name, look := range map[string]func(*node){
		"resync": func(n *node) { require.NoError(n, n.dp.Resync(n.Context())) },
		"apply":  func(n *node) { n.must(update("new", "cali2", "", "10.0.0.9")); n.must(gone("new")) },
		"start": func(n *node) {
			n.restart()
			n.must(append(webAndDB(), inSync)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newPorts(t, routes.Config{
				Gateways: []netip.Addr{addr("169.254.1.1")},
				Sysctls:  []routes.Sysctl{{Family: 4, Name: "rp_filter", Value: "1"}},
			})
			settings := []string{"net/ipv4/conf/cali1/forwarding", "net/ipv4/conf/cali1/rp_filter"}
			n.unset(settings...)
			require.NoError(t, n.ns.SetSysctl("net/ipv4/neigh/cali1/proxy_delay", "40"))
			n.ip("link set dev cali1 master br0")
			n.must(append(webAndDB(), inSync)...)
			gateway := "169.254.1.1 lo 219"
			require.Equal(t, append([]string{"10.0.0.2 cali2 219"}, gateway), n.routes("main"))
			require.Equal(t, []string{"10.0.0.2 cali2 " + mac}, n.neighbours())
			require.NotContains(t, n.ip("neigh show proxy"), "cali1")
			for _, path := range settings {
				n.wantSysctl(path, "0")
			}
			n.wantSysctl("net/ipv4/neigh/cali1/proxy_delay", "40")

			n.ip("link set dev cali1 nomaster")
			look(n)
			require.Equal(t, []string{webRoutes[0], dbRoutes[0], gateway, webRoutes[1]}, n.routes("main"))
			require.Len(t, n.neighbours(), 3)
			require.Contains(t, n.ip("neigh show proxy"), "cali1")
			for _, path := range settings {
				n.wantSysctl(path, "1")
			}
			n.wantSysctl("net/ipv4/neigh/cali1/proxy_delay", "0")

			n.ip("link set dev cali1 master br0")
			look(n)
			require.Equal(t, append([]string{"10.0.0.2 cali2 219"}, gateway), n.routes("main"))
			require.Equal(t, []string{"10.0.0.2 cali2 " + mac}, n.neighbours())
			require.NotContains(t, n.ip("neigh show proxy"), "cali1")
			require.Zero(t, n.dp.Stats().Failing)

			n.ip("link set dev cali1 down")
			look(n)
			require.Zero(t, n.dp.Stats().Failing, "a port needs no route")
			n.ip("link set dev cali1 up")
			require.NoError(t, n.dp.Teardown(t.Context()))
			require.Empty(t, n.routes("main"))
		})
	}
}

// Watch follows the master of an interface, and a bridge that is deleted or renamed.
func TestWatchFollowsPorts(t *testing.T) {
	n := newPorts(t, routes.Config{})
	n.ip("link set dev cali1 master br0")
	n.must(append(webAndDB(), inSync)...)
	require.Equal(t, dbRoutes, n.routes("main"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.dp.Watch(ctx, func(dataplane.Drift) {}) }()
	wait := func(what string, routed bool) {
		t.Helper()
		want := dbRoutes
		if routed {
			want = []string{webRoutes[0], dbRoutes[0], webRoutes[1]}
		}
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			require.Equal(c, want, n.routes("main"))
			require.Len(c, n.neighbours(), len(want))
		}, watchTimeout, time.Millisecond, what)
	}
	for _, change := range []struct {
		command string
		routed  bool
	}{
		{"link set dev cali1 nomaster", true},
		{"link set dev cali1 master br0", false},
		{"link set dev br0 down", false},
		{"link set dev br0 name br1", true},
		{"link set dev br1 name br0", false},
		{"link del dev br0", true},
		{"link add name br0 type bridge", true},
		{"link set dev cali1 master br0", false},
		{"link set dev cali1 down", false},
		{"link set dev cali1 up", false},
		{"link add name br2 type bridge", false},
		{"link set dev cali1 master br2", true},
	} {
		n.ip("%s", change.command)
		wait(change.command, change.routed)
	}
	require.NoError(t, n.apply())
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// A plan adds no objects for ports, and removes existing ones.
func TestPlanOmitsPorts(t *testing.T) {
	n := newPorts(t, routes.Config{})
	n.ip("link set dev cali1 master br0")
	n.must(inSync)
	plan, err := n.dp.Plan(t.Context(), dataplane.Batch{Events: webAndDB()})
	require.NoError(t, err)
	require.Contains(t, plan, "10.0.0.2/32 dev cali2")
	require.NotContains(t, plan, "cali1")
	n.must(webAndDB()...)
	n.ip("link set dev cali2 master br0")
	plan, err = n.dp.Plan(t.Context(), dataplane.Batch{})
	require.NoError(t, err)
	require.Contains(t, plan, "ip route del 10.0.0.2/32 dev cali2")
	require.Contains(t, plan, "ip neigh del 10.0.0.2 dev cali2")
}

// A bridge that the configuration does not name has no effect.
func TestPortOfAnotherBridge(t *testing.T) {
	n := newPorts(t, routes.Config{})
	n.ip("link add name br1 type bridge")
	n.ip("link set dev cali1 master br1")
	n.must(append(webAndDB(), inSync)...)
	require.Equal(t, []string{webRoutes[0], dbRoutes[0], webRoutes[1]}, n.routes("main"))
}

// A block of another node has its route, although the device of the tunnel is a port.
func TestTunnelBesidePorts(t *testing.T) {
	n := newPorts(t, routes.Config{})
	n.ip("addr add 192.0.2.1/24 dev cali2")
	n.must(
		tunnel("here", "10.65.1.0", "66:00:00:00:00:01", "192.0.2.1", true),
		tunnel("there", "10.65.2.0", "66:00:00:00:00:02", "192.0.3.2", false),
		remote("10.65.2.0/26", "there", "192.0.3.2", dataplane.PoolVXLAN, false), inSync,
	)
	want := n.routes("main")
	require.Equal(t, []string{"10.65.2.0/26 vxlan.way 219"}, want)
	n.ip("link set dev vxlan.way master br0")
	require.NoError(t, n.dp.Resync(t.Context()))
	require.Equal(t, want, n.routes("main"))
}
