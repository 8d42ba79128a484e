// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// demoCall runs the demo. It skips the test if namespaces cannot be made.
func demoCall(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	nstest.New(t) // skips or fails
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	before := netNamespace(t)
	code, out, errs = call(t, append([]string{"demo"}, args...)...)
	require.Equal(t, before, netNamespace(t), "the process stays in its namespace")
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left, "the demo removes its files")
	return code, out, errs
}

func netNamespace(t *testing.T) string {
	t.Helper()
	name, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	return name
}

// rowsOf counts the rows of the matrices that begin with a name.
func rowsOf(out, name string) (rows int) {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, name+" ") && strings.ContainsAny(line, ".X") {
			rows++
		}
	}
	return rows
}

func TestDemo(t *testing.T) {
	code, out, errs := demoCall(t, "--ruleset")
	require.Zero(t, code, "%s\n%s", out, errs)
	require.Empty(t, errs)
	require.Equal(t, 4, strings.Count(out, "\n== "), out)
	for _, name := range []string{
		"shop/web", "shop/cart", "data/db", "data/cache", "ops/dns", "ops/monitor", "outside",
	} {
		require.Equal(t, 3, rowsOf(out, name), "%s in\n%s", name, out)
	}
	require.Equal(t, 3, strings.Count(out, " ms after the files changed"), out)
	require.Contains(t, out, "tier security: Deny")
	require.Contains(t, out, "flows measured, 0 differ from policy")
	require.Contains(t, out, "table inet wayleave {")
	before, after, _ := strings.Cut(out, "With policy")
	require.NotContains(t, before[strings.Index(before, "\n== "):], "X", "all is open before policy")
	require.Contains(t, after, "X")
	_, wire, _ := strings.Cut(out, "\n== Between two nodes, as seen on the wire\n")
	require.Contains(t, wire, "directly     10.65.1.1 -> 10.65.2.1 answered: udp 10.65.1.1 > 10.65.2.1\n")
	for _, way := range []string{"VXLAN", "IP in IP", "WireGuard"} {
		// Not every kernel has the module.
		require.Regexp(t, "\n"+way+" +(10.65.1.1 -> 10.65.2.1 answered|not shown): ", wire)
	}
}

// With two processes, the matrices and the rules are the same as with one.
func TestDemoWire(t *testing.T) {
	t.Setenv(agentMode, "yes")
	code, out, errs := demoCall(t, "--wire", "--ruleset")
	require.Zero(t, code, "%s\n%s", out, errs)
	require.Empty(t, errs)
	require.Contains(t, out, "('agent dataplane') programs the kernel")
	require.Equal(t, 3, strings.Count(out, " ms after the files changed"), out)
	code, one, errs := demoCall(t, "--ruleset")
	require.Zero(t, code, errs)
	rows := matrixRows(one)
	require.Len(t, rows, 3*7)
	require.Equal(t, rows, matrixRows(out))
	_, rules, _ := strings.Cut(one, "\ntable inet wayleave {")
	rules, _, _ = strings.Cut(rules, "\n== ")
	require.Contains(t, out, rules)
}

// matrixRows returns the rows of the matrices.
func matrixRows(out string) (rows []string) {
	out, _, _ = strings.Cut(out, "\nThe rules in the node's kernel:")
	for line := range strings.Lines(out) {
		name, cells, _ := strings.Cut(strings.TrimSpace(line), " ")
		if (name == "outside" || strings.Contains(name, "/")) && strings.Trim(cells, ".X! ?\n") == "" && cells != "" {
			rows = append(rows, line)
		}
	}
	return rows
}

// The command reports the missing file, and ends normally without a policy engine.
func TestDataplaneCommand(t *testing.T) {
	code, _, errs := call(t, "dataplane")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "want one FOLDER with the sockets")
	code, _, errs = call(t, "dataplane", "/does/not/exist", "--route-protocol", "3")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "route-protocol")
}

// The demo runs with other manifests, a change and a shell. It logs a broken file and continues.
func TestDemoOfOwnManifests(t *testing.T) {
	t.Setenv("SHELL", "/bin/sh")
	dir := folderOf(t, map[string]string{
		"pods.yaml": goodPods, "policy.yaml": goodPolicy, "broken.yaml": "kind: [", "README": "not read",
	})
	code, out, errs := demoCall(t, "--manifests", dir, "--edit", "policy.yaml: port: http => port: 81", "--keep")
	require.Zero(t, code, "%s\n%s", out, errs)
	require.Contains(t, errs, "file=broken.yaml document=1 line=1")
	require.Equal(t, 4, strings.Count(out, "\n== "), out)
	require.Equal(t, 3, rowsOf(out, "shop/six"), out)
	require.Contains(t, out, "/bin/sh in the node's network namespace")
	code, out, _ = demoCall(t, "--manifests", dir)
	require.Zero(t, code, out)
	require.Equal(t, 3, strings.Count(out, "\n== "), "without --edit, other manifests are not changed: %s", out)
}

func TestDemoRefuses(t *testing.T) {
	for _, row := range []struct {
		name, want string
		files      map[string]string
		edit       string
	}{
		{"no pods", "no pod with a node", map[string]string{"a.yaml": goodPolicy}, ""},
		{
			"mixed file", "a.yaml has pods beside policies",
			map[string]string{"a.yaml": goodPods + "\n---\n" + goodPolicy},
			"",
		},
		{"invalid edit", "FILE: OLD => NEW", map[string]string{"a.yaml": goodPods}, "nonsense"},
		{"edit of a missing file", `"b.yaml"`, map[string]string{"a.yaml": goodPods}, "b.yaml: app => bpp"},
		{"edit of two places", "2 times", map[string]string{"a.yaml": goodPods}, "a.yaml: nodeName => name"},
	} {
		t.Run(row.name, func(t *testing.T) {
			args := []string{"--manifests", folderOf(t, row.files)}
			if row.edit != "" {
				args = append(args, "--edit", row.edit)
			}
			code, _, errs := demoCall(t, args...)
			require.NotZero(t, code)
			require.Contains(t, errs, row.want)
		})
	}
	code, _, errs := demoCall(t, "--manifests", "/does/not/exist")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "/does/not/exist")
}
