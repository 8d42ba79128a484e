// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
)

// asProgram makes the test program run as the command cluster.
const asProgram = "WAYLEAVE_TEST_AS_PROGRAM"

// TestMain makes this test program the process 1 of the machines that it starts, too.
func TestMain(m *testing.M) {
	machine.Main()
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// newRepository returns a folder that looks like the repository. With options, a cluster has been
// started.
func newRepository(t *testing.T, options string) string {
	t.Helper()
	folder := t.TempDir()
	makeFile(t, filepath.Join(folder, "tools/cluster/go.mod"), "")
	if options != "" {
		makeFile(t, filepath.Join(folder, "bin/cluster-state/options.json"), options)
	}
	return folder
}

// runProgram runs the command cluster, as another user than root unless root is true.
func runProgram(t *testing.T, root bool, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), asProgram+"=1")
	if !root {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	printed, err := cmd.CombinedOutput()
	return string(printed), err
}

func TestEveryCommandHasHelp(t *testing.T) {
	folders := []string{newRepository(t, ""), newRepository(t, `{"Nodes":3}`)}
	for _, c := range commands() {
		for i, folder := range folders {
			for _, args := range [][]string{{c.name, "--help"}, {c.name, "-h"}, {"help", c.name}} {
				printed, err := runProgram(t, i > 0, append([]string{"-C", folder}, args...)...)
				require.NoError(t, err, "%q: %s", args, printed)
				require.Contains(t, printed, "usage: cluster "+c.name, "%q", args)
			}
		}
	}
	for _, args := range [][]string{{"help"}, {"--help"}, {"kill", "node1", "--help"}, {"faults", "idle", "--help"}} {
		printed, err := runProgram(t, false, args...)
		require.NoError(t, err, "%q: %s", args, printed)
		require.Contains(t, printed, "usage: cluster", "%q", args)
	}
	// The help of another command is not that of this one.
	printed, err := runProgram(t, true, "-C", folders[1], "shell", "kubectl", "--help")
	require.Error(t, err)
	require.Contains(t, printed, "machine control does not run")
}

// Flags may follow other arguments, as in docs/cluster.md.
func TestFlagsMayFollowArguments(t *testing.T) {
	folder := newRepository(t, `{"Nodes":3}`)
	for _, args := range [][]string{
		{"test", "netpol", "--focus", "default-deny"},
		{"test", "--focus=default-deny", "netpol"},
		{"faults", "idle", "--short", "churn"},
	} {
		printed, err := runProgram(t, true, append([]string{"-C", folder}, args...)...)
		require.Error(t, err)
		require.Contains(t, printed, "no cluster runs", "%q", args)
	}
	printed, err := runProgram(t, true, "-C", folder, "test", "netpol", "--focus", "a", "other")
	require.Error(t, err)
	require.Contains(t, printed, `no suite "other"`)
}

func TestOnlyNodesAreKilledAndStarted(t *testing.T) {
	none, started := newRepository(t, ""), newRepository(t, `{"Nodes":2}`)
	for _, command := range []string{"kill", "start"} {
		for _, c := range []struct{ folder, node, want string }{
			{started, "control", "control is the machine of the control plane"},
			{started, "node3", `no node "node3", only node1, node2`},
			{none, "control", "control is the machine of the control plane"},
			{none, "node1", "no cluster runs"},
		} {
			printed, err := runProgram(t, true, "-C", c.folder, command, c.node)
			require.Error(t, err)
			require.Contains(t, printed, c.want, "%s %s", command, c.node)
		}
	}
}
