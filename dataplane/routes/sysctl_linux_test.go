// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/rtnl"
)

func (n *node) wantSysctl(path, want string) {
	n.Helper()
	value, err := n.ns.Sysctl(path)
	require.NoError(n, err)
	require.Equal(n, want, value, path)
}

// unset gives the sysctls of interfaces the other value.
func (n *node) unset(paths ...string) {
	n.Helper()
	for _, path := range paths {
		require.NoError(n, n.ns.SetSysctl(path, "0"))
	}
}

// Forwarding is set as the configuration requires. A new namespace may inherit settings, so the
// test begins with known ones.
func TestForwarding(t *testing.T) {
	const (
		four    = "net/ipv4/conf/cali.1/forwarding"
		six     = "net/ipv6/conf/cali.1/forwarding"
		six2    = "net/ipv6/conf/cali2/forwarding"
		all     = "net/ipv6/conf/all/forwarding"
		all4    = "net/ipv4/conf/all/forwarding"
		another = "net/ipv4/conf/xcali.1/forwarding"
	)
	for name, row := range map[string]struct {
		cfg  routes.Config
		want map[string]string
	}{
		"default": {
			routes.Config{}, map[string]string{four: "1", six: "1", six2: "0", all: "0", all4: "0", another: "0"},
		},
		"all IPv6": {
			routes.Config{ForwardAllIPv6: true},
			map[string]string{four: "1", six: "1", all: "1", all4: "0", another: "0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, row.cfg, "cali.1", "cali2")
			n.unset(all4, all, four, six, six2, another)
			n.must(update("a", "cali.1", "", "10.0.0.1", "2001:db8::1"), update("b", "cali2", "", "10.0.0.2"), inSync)
			for path, want := range row.want {
				n.wantSysctl(path, want)
			}
		})
	}
}

func TestConfiguredSysctls(t *testing.T) {
	n := newNode(t, routes.Config{Sysctls: []routes.Sysctl{
		{Family: 4, Name: "rp_filter", Value: "2"},
		{Family: 6, Name: "accept_ra", Value: "0"},
		{Family: 4, Name: "proxy_arp", Value: "1"},
	}}, "cali1", "cali2")
	n.must(update("a", "cali1", "", "10.0.0.1"), inSync)
	n.wantSysctl("net/ipv4/conf/cali1/rp_filter", "2")
	n.wantSysctl("net/ipv4/conf/cali1/proxy_arp", "1")
	n.wantSysctl("net/ipv6/conf/cali1/accept_ra", "0")
	n.wantSysctl("net/ipv4/conf/cali2/proxy_arp", "0")
	require.Zero(t, n.dp.Stats().Repaired, "no other process changed them")
}

// Without its settings, an interface gets no routes, because its traffic might violate them.
func TestSysctlThatCannotBeSet(t *testing.T) {
	n := newNode(t, routes.Config{Sysctls: []routes.Sysctl{{Family: 4, Name: "no_such_setting", Value: "1"}}}, "cali1")
	err := n.apply(update("a", "cali1", "", "10.0.0.1"), inSync)
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general)
	require.Len(t, objects, 1)
	require.Equal(t, "read sysctl", objects[key("a")].Op)
	require.Empty(t, n.routes("main"))
	plan, err := n.dp.Plan(t.Context(), dataplane.Batch{})
	require.NoError(t, err)
	require.NotContains(t, plan, "route add")
	require.Error(t, n.apply(), "reported for as long as it lasts")

	n = newNode(t, routes.Config{Sysctls: []routes.Sysctl{{Family: 4, Name: "rp_filter", Value: "many"}}}, "cali1")
	err = n.apply(update("a", "cali1", "", "10.0.0.1"), inSync)
	objects, _ = dataplane.ApplyErrors(err)
	require.Equal(t, "set sysctl", objects[key("a")].Op)
	require.Empty(t, n.routes("main"))
	n.must(gone("a"))
}

// When a shared address moves to another endpoint, the sysctls of that endpoint's new interface are
// set.
func TestSysctlsOfNewOwnerAreSet(t *testing.T) {
	n := newNode(t, routes.Config{Sysctls: []routes.Sysctl{{Family: 4, Name: "rp_filter", Value: "1"}}}, "cali1",
		"cali2")
	require.ErrorIs(t, n.apply(update("a", "cali1", mac, "10.0.0.1"), update("b", "cali2", mac, "10.0.0.1"), inSync),
		routes.ErrContested)
	require.NoError(t, n.ns.DeleteLink("cali2"))
	n.addLinks("cali2") // with its own settings
	n.must(gone("a"))
	require.Equal(t, []string{"10.0.0.1 cali2 219"}, n.routes("main"))
	n.wantSysctl("net/ipv4/conf/cali2/rp_filter", "1")
}

// If IPv6 is off, the interface has no IPv6 addresses and routes. So the setting is written before
// routes are added. A new interface with the name gets the settings again.
func TestSysctlsOfIPv6(t *testing.T) {
	const path = "net/ipv6/conf/cali1/"
	off := routes.Config{Sysctls: []routes.Sysctl{
		{Family: 6, Name: "disable_ipv6", Value: "1"}, {Family: 6, Name: "accept_ra", Value: "0"},
	}}
	n := newNode(t, off, "cali1")
	n.must(update("a", "cali1", mac, "10.0.0.1"), inSync)
	for range 2 {
		require.Equal(t, []string{"10.0.0.1 cali1 219"}, n.routes("main"))
		n.wantSysctl(path+"disable_ipv6", "1")
		n.wantSysctl(path+"accept_ra", "0")
		require.Empty(t, n.ip("-6 addr show dev cali1"))
		require.NoError(t, n.ns.DeleteLink("cali1"))
		n.addLinks("cali1")
		n.must()
	}
	n.cfg.Sysctls = []routes.Sysctl{
		{Family: 6, Name: "disable_ipv6", Value: "0"}, {Family: 6, Name: "accept_ra", Value: "2"},
	}
	n.restart()
	n.must(update("a", "cali1", mac, "10.0.0.1", "2001:db8::1"), inSync)
	require.Equal(t, []string{"10.0.0.1 cali1 219", "2001:db8::1 cali1 219"}, n.routes("main"))
	n.wantSysctl(path+"accept_ra", "2")
}

// A sysctl that another process changes is restored at once, reported and counted, if the kernel
// sends a notification. Resync restores the others.
func TestSysctlsAreRepaired(t *testing.T) {
	n := newNode(t, routes.Config{
		Gateways: []netip.Addr{addr("169.254.1.1"), addr("fe80::1")}, ForwardAllIPv4: true, ForwardAllIPv6: true,
		Sysctls: []routes.Sysctl{{Family: 4, Name: "rp_filter", Value: "1"}},
	}, "cali1", "cali2")
	n.must(update("a", "cali1", "", "10.0.0.1", "2001:db8::1"), inSync)
	monitor := n.listen(rtnl.GroupNetconf)
	ctx, cancel := context.WithCancel(t.Context())
	drifts, ended := make(chan dataplane.Drift, 100), make(chan error, 1)
	go func() { ended <- n.dp.Watch(ctx, func(d dataplane.Drift) { drifts <- d }) }()
	for i, path := range []string{
		"net/ipv4/conf/cali1/forwarding", "net/ipv6/conf/cali1/forwarding", "net/ipv4/conf/cali1/rp_filter",
		"net/ipv6/conf/cali1/proxy_ndp", "net/ipv4/conf/all/forwarding", "net/ipv6/conf/all/forwarding",
	} {
		n.wantSysctl(path, "1")
		n.dp.ResetDisputes()
		n.unset(path)
		n.await(monitor, path, func() bool {
			value, err := n.ns.Sysctl(path)
			return err == nil && value == "1"
		})
		for reported := false; !reported; { // conf/all also changes the values of interfaces
			select {
			case d := <-drifts:
				require.True(t, d.Foreign && d.Repaired)
				reported = d.Object == "sysctl "+path+"=1"
			case <-time.After(20 * time.Second):
				require.Fail(t, "no drift is reported", path)
			}
		}
		require.Greater(t, n.dp.Stats().Repaired, uint64(i), "counted before the drift is reported")
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)

	const silent = "net/ipv4/neigh/cali1/proxy_delay"
	require.NoError(t, n.ns.SetSysctl(silent, "80"))
	require.NoError(t, n.dp.Resync(t.Context()))
	n.wantSysctl(silent, "0")

	// Interfaces without wanted objects are not reported.
	repaired := n.dp.Stats().Repaired
	require.NoError(t, n.ns.SetSysctl("net/ipv4/conf/cali2/rp_filter", "1"))
	n.must(inSync)
	require.Equal(t, repaired, n.dp.Stats().Repaired)
}

// Teardown restores sysctls that still have the value that was set, also those that an earlier
// process set.
func TestTeardownRestoresSysctls(t *testing.T) {
	const (
		four  = "net/ipv4/conf/cali1/forwarding"
		all6  = "net/ipv6/conf/all/forwarding"
		delay = "net/ipv4/neigh/cali1/proxy_delay"
		other = "net/ipv4/conf/cali1/rp_filter"
		right = "net/ipv4/conf/cali1/arp_filter"
	)
	file := filepath.Join(t.TempDir(), "new", "sysctls")
	for name, file := range map[string]string{"one process": "", "a later process": file} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, routes.Config{
				Gateways: []netip.Addr{addr("169.254.1.1")}, ForwardAllIPv6: true, SysctlFile: file,
				Sysctls: []routes.Sysctl{
					{Family: 4, Name: "rp_filter", Value: "1"}, {Family: 4, Name: "arp_filter", Value: "1"},
				},
			}, "cali1", "cali2")
			n.unset(four, all6, other)
			require.NoError(t, n.ns.SetSysctl(delay, "40"))
			require.NoError(t, n.ns.SetSysctl(right, "1"))
			n.must(update("a", "cali1", "", "10.0.0.1", "2001:db8::1"), update("b", "cali2", "", "10.0.0.2"), inSync)
			for _, path := range []string{four, all6, other} {
				n.wantSysctl(path, "1")
			}
			n.wantSysctl(delay, "0")
			require.NoError(t, n.ns.SetSysctl(delay, "80")) // by another process: Teardown restores the first value
			require.NoError(t, n.dp.Resync(t.Context()))
			n.wantSysctl(delay, "0")
			require.NoError(t, n.ns.DeleteLink("cali2"))
			require.NoError(t, n.ns.SetSysctl(other, "2"))
			if file != "" {
				n.restart()
			}
			plan, err := n.dp.PlanTeardown(t.Context())
			require.NoError(t, err)
			require.Contains(t, plan, "ip route del 10.0.0.1/32 dev cali1")
			require.Contains(t, plan, "sysctl -w "+four+"=0\n")
			require.NotContains(t, plan, other)
			n.wantSysctl(four, "1")
			require.NoError(t, n.dp.Teardown(t.Context()))
			require.Empty(t, n.routes("main"))
			n.wantSysctl(four, "0")
			n.wantSysctl(all6, "0")
			n.wantSysctl(delay, "40")
			n.wantSysctl(other, "2")
			n.wantSysctl(right, "1")
			require.NoFileExists(t, file)
			plan, err = n.dp.PlanTeardown(t.Context())
			require.NoError(t, err)
			require.Empty(t, plan)
		})
	}
}

// The kernel sets the forwarding of each interface when that of all interfaces is set. Teardown
// restores those that differed.
func TestTeardownRestoresForwardingOfOtherInterfaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sysctls")
	const endpoint = "net/ipv4/conf/cali1/forwarding"
	n := newNode(t, routes.Config{SysctlFile: file}, "cali1", "Uplink", "x")
	uplinks := []string{"net/ipv4/conf/Uplink/forwarding", "net/ipv6/conf/Uplink/forwarding"}
	others := []string{"net/ipv4/conf/x/forwarding", "net/ipv6/conf/x/forwarding", "net/ipv6/conf/default/forwarding"}
	n.unset("net/ipv4/conf/all/forwarding", "net/ipv6/conf/all/forwarding")
	n.unset(append(others, endpoint)...)
	for _, path := range uplinks {
		require.NoError(t, n.ns.SetSysctl(path, "1"))
	}
	n.must(update("a", "cali1", "", "10.0.0.1", "2001:db8::1"), inSync)
	n.cfg.ForwardAllIPv4, n.cfg.ForwardAllIPv6 = true, true // used from the next start on
	n.restart()
	n.must(update("a", "cali1", "", "10.0.0.1", "2001:db8::1"), inSync)
	for _, path := range append(uplinks, others...) {
		n.wantSysctl(path, "1")
	}
	n.restart()
	require.NoError(t, n.dp.Teardown(t.Context()))
	for _, path := range uplinks {
		n.wantSysctl(path, "1")
	}
	for _, path := range append(others, endpoint) {
		n.wantSysctl(path, "0")
	}
}

// If another process changes a sysctl while the interface changes too, the repair is counted, and
// the value for Teardown is kept. The kernel ends the check of an interface's own IPv6 address at
// any time.
func TestSysctlChangedWithAddress(t *testing.T) {
	const delay = "net/ipv4/neigh/a/proxy_delay"
	k := newKeeping(t, routes.KeeperConfig{}, "a")
	require.NoError(t, k.ns.SetSysctl(delay, "40"))
	k.k.Set(routes.Setting{Path: delay, Value: "0", Interface: "a"})
	k.mustApply()
	for i, change := range []string{"addr add 10.1.0.1/24 dev a", "addr del 10.1.0.1/24 dev a", "link set dev a down"} {
		k.ip("%s", change)
		require.NoError(t, k.ns.SetSysctl(delay, "80"))
		k.mustApply()
		k.wantSysctl(delay, "0")
		require.EqualValues(t, i+1, k.k.Stats().Repaired, change)
	}
	require.NoError(t, k.k.Teardown(t.Context()))
	k.wantSysctl(delay, "40")
}

// If a sysctl cannot be restored, Teardown reports it and keeps the saved values for the next
// attempt.
func TestTeardownKeepsWhatItCannotRestore(t *testing.T) {
	const path = "net/ipv4/conf/a/rp_filter"
	file := filepath.Join(t.TempDir(), "sysctls")
	k := newKeeping(t, routes.KeeperConfig{SysctlFile: file}, "a")
	require.NoError(t, k.ns.SetSysctl(path, "0"))
	save := func(before string) {
		line := `{"path":"` + path + `","before":"` + before + `","set":"0"}` + "\n"
		require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	}
	save("many")
	var failed *routes.ObjectError
	require.ErrorAs(t, k.k.Teardown(t.Context()), &failed)
	require.FileExists(t, file)
	save("1")
	k.k = k.another(routes.KeeperConfig{SysctlFile: file})
	require.NoError(t, k.k.Teardown(t.Context()))
	k.wantSysctl(path, "1")
	require.NoFileExists(t, file)
}
