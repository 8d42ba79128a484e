// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// kernelState returns the tables, routes and neighbour entries of an agent that has ended.
func kernelState(t *testing.T, node *netns.NS) (tables, routes string) {
	t.Helper()
	run := func(name string, args ...string) string {
		var out []byte
		require.NoError(t, node.Do(func() (err error) {
			cmd := exec.Command(name, args...)
			cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
			out, err = cmd.Output()
			return err
		}))
		return string(out)
	}
	return run("/usr/sbin/nft", "list", "tables"), run("ip", "route", "show", "proto", "219") +
		run("ip", "-6", "route", "show", "proto", "219") + run("ip", "neigh", "show", "proto", "219")
}

// leftBehind returns a node with the table and routes of an agent that has ended, and the commands
// that remove the routes.
func leftBehind(t *testing.T) (node *netns.NS, config pipeline.Config, removeRoutes []string) {
	t.Helper()
	node, dir, iface := nstest.New(t), t.TempDir(), convert.InterfaceName("shop", "web")
	nstest.NewWorkload(t, node, iface, "10.0.0.1")
	write(t, dir, "a.yaml", namespace+"---"+pod("web", "10.0.0.1"))
	r := start(t, node, dir)
	r.until(t, r.programmed(t))
	r.end(t)
	tables, routes := kernelState(t, node)
	require.Equal(t, "table inet wayleave\n", tables)
	require.Contains(t, routes, "10.0.0.1 dev "+iface)
	config = pipeline.Config{NetNS: node.FD()}
	return node, config, []string{"ip route del 10.0.0.1/32 dev " + iface + " scope link proto 219 table 254"}
}

// Teardown removes everything else if the former values of sysctls cannot be read, and names it.
func TestTeardownWithUnreadableSysctlFile(t *testing.T) {
	node, config, removeRoutes := leftBehind(t)
	config.SysctlFile = t.TempDir() // a directory, which cannot be read as a file
	planned, err := pipeline.Teardown(t.Context(), config, true)
	require.ErrorContains(t, err, "restore sysctls: read "+config.SysctlFile)
	commands, err := pipeline.Teardown(t.Context(), config, false)
	require.ErrorContains(t, err, "restore sysctls: read "+config.SysctlFile)
	require.Equal(t, planned, commands)
	require.Subset(t, commands, append(removeRoutes, "nft delete table inet wayleave"))
	tables, routes := kernelState(t, node)
	require.Empty(t, tables+routes)
}

// Teardown removes the table even if the configuration of routes is invalid.
func TestTeardownWithInvalidRouteProtocol(t *testing.T) {
	node, config, _ := leftBehind(t)
	config.RouteProtocol = 2 // of the kernel itself
	commands, err := pipeline.Teardown(t.Context(), config, false)
	require.ErrorContains(t, err, "Protocol")
	require.Equal(t, []string{"nft delete table inet wayleave"}, commands)
	tables, _ := kernelState(t, node)
	require.Empty(t, tables)
}

// Teardown removes everything else if another process owns the table, and names only that.
func TestTeardownWithOwnedTable(t *testing.T) {
	node, config, removeRoutes := leftBehind(t)
	owner, err := applier.New(applier.Config{Name: "wayleave", NetNS: node.FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, owner.Close()) })
	require.NoError(t, owner.Apply(t.Context(), &ruleset.Table{Name: "wayleave"}))
	nstest.SkipUnlessOwned(t, owner.Stats().Owned)
	commands, err := pipeline.Teardown(t.Context(), config, false)
	var owned *applier.OwnedError
	require.ErrorAs(t, err, &owned)
	require.Subset(t, commands, removeRoutes)
	require.NotContains(t, commands, "nft delete table inet wayleave")
	tables, routes := kernelState(t, node)
	require.Equal(t, "table inet wayleave\n", tables)
	require.Empty(t, routes)

	require.NoError(t, owner.Close())
	commands, err = pipeline.Teardown(t.Context(), config, false)
	require.NoError(t, err)
	require.Equal(t, []string{"nft delete table inet wayleave"}, commands)
}

// Teardown removes the WireGuard objects of an agent that has ended before its routes, and needs no
// key file.
func TestTeardownOfWireguard(t *testing.T) {
	node, config, removeRoutes := leftBehind(t)
	ip := func(args ...string) string {
		var out []byte
		require.NoError(t, node.Do(func() (err error) {
			out, err = exec.Command("ip", args...).CombinedOutput()
			return err
		}), "%s", out)
		return string(out)
	}
	ip("rule", "add", "from", "all", "lookup", "22361", "priority", "100", "protocol", "236")
	ip("route", "add", "blackhole", "10.65.2.0/26", "table", "22361", "metric", "4000", "proto", "236")
	planned, err := pipeline.Teardown(t.Context(), config, true)
	require.NoError(t, err)
	require.Contains(t, ip("rule"), "22361")
	commands, err := pipeline.Teardown(t.Context(), config, false)
	require.NoError(t, err)
	require.Equal(t, planned, commands)
	require.Subset(t, commands, removeRoutes)
	first := slices.IndexFunc(commands, func(c string) bool { return strings.HasPrefix(c, "ip rule del") })
	require.Greater(t, first, slices.Index(commands, removeRoutes[0]), "no packet is unencrypted")
	require.NotContains(t, ip("rule"), "22361")
	require.Empty(t, ip("route", "show", "table", "all", "proto", "236"))
	commands, err = pipeline.Teardown(t.Context(), config, false)
	require.NoError(t, err)
	require.Empty(t, commands)
}
