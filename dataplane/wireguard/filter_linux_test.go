// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The table has the node's own prefixes, which pods inside them do not change. It is planned, kept, and removed if
// encryption is no longer required.
func TestFilterTable(t *testing.T) {
	a := newTestDataplane(t)
	a.cfg.RequireEncryption, a.cfg.HostEncryption = true, true
	list := func() string { return nstest.WithoutOwner(nstest.NFT(t, a.ns, "", "list", "ruleset")) }
	events := append([]dataplane.Event{
		routeUpdate("192.0.2.1/32", "a", dataplane.RouteLocalHost),
		routeUpdate("10.0.1.0/32", "a", dataplane.RouteLocalTunnel),
		routeUpdate("10.9.9.9/32", "a", dataplane.RouteLocalTunnel), // of another device
		routeUpdate("fd00:1::/122", "a", dataplane.RouteBlackhole),
	}, network()...)
	plan, err := a.Plan(t.Context(), dataplane.Batch{Events: events})
	require.NoError(t, err)
	require.Contains(t, plan, "nft -f - <<'END'\ntable inet wayleave-wireguard {\n")
	_ = a.applyVisible(events...)
	want := `table inet wayleave-wireguard {
	set own4 {
		type ipv4_addr
		flags interval
		elements = { 10.0.1.0/26, 10.0.2.8,
			     192.0.2.1 }
	}

	set own6 {
		type ipv6_addr
		flags interval
		elements = { fd00:1::/122 }
	}

	chain prerouting {
		type filter hook prerouting priority raw; policy accept;
		iifname { "lo", "wg.way" } accept
		icmpv6 type 133-137 accept
		fib daddr type local udp dport { 51820 } accept
		ip daddr @own4 fib saddr oifname { "wg.way" } counter packets 0 bytes 0 drop comment "unencrypted packet from a node that encrypts"
		ip6 daddr @own6 fib saddr oifname { "wg.way" } counter packets 0 bytes 0 drop comment "unencrypted packet from a node that encrypts"
	}
}
`
	require.Equal(t, want, list())
	plan, err = a.Plan(t.Context(), dataplane.Batch{})
	require.NoError(t, err)
	require.NotContains(t, plan, "nft")

	for _, tt := range []struct {
		event   dataplane.Event
		changes bool
	}{
		{routeUpdate("10.0.1.7/32", "a", dataplane.RouteLocalWorkload), false},
		{routeUpdate("10.0.5.0/26", "a", dataplane.RouteBlackhole), true},
		{routeUpdate("10.7.7.7/32", "a", dataplane.RouteLocalWorkload), true},
		{&dataplane.RouteRemove{Dst: netip.MustParsePrefix("10.0.1.7/32")}, false},
	} {
		a.state.changed = false
		a.state.update(dataplane.Batch{Events: []dataplane.Event{tt.event}})
		require.Equal(t, tt.changes, a.state.changed, tt.event)
		_ = a.applyVisible()
	}
	require.Contains(t, list(), "10.0.5.0/26")
	require.Contains(t, list(), "10.7.7.7")
	require.NotContains(t, list(), "10.0.1.7")

	plan, err = a.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Contains(t, plan, "nft 'delete table inet wayleave-wireguard'\n")
	require.NoError(t, a.Teardown(t.Context()))
	require.Empty(t, list())

	// A run that does not require encryption removes the table of an earlier run at its start.
	_ = a.applyVisible(events...)
	require.NotEmpty(t, list())
	require.NoError(t, a.Close())
	b := newTestDataplane(t)
	b.ns, b.cfg.NetNS, b.devices.namespace = a.ns, a.ns.FD(), a.ns.FD()
	plan, err = b.Plan(t.Context(), dataplane.Batch{Events: events})
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(plan, "nft"), plan)
	_ = b.applyVisible(events...)
	require.Empty(t, list())
}
