// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
)

// TestMain makes this test program the process 1 of the machines that it starts.
func TestMain(m *testing.M) {
	machine.Main()
	os.Exit(m.Run())
}

func start(t *testing.T) *machine.Machine {
	t.Helper()
	dir := t.TempDir()
	m, err := machine.Start(t.Context(), machine.Config{
		Name: "m1", Dir: filepath.Join(dir, "m1"), Logs: filepath.Join(dir, "logs"), Cgroup: "wayleave-test-machine",
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Remove()) })
	return m
}

// run returns what a command prints on the machine.
func run(t *testing.T, m *machine.Machine, script string) string {
	t.Helper()
	printed, err := m.Command(t.Context(), "sh", "-c", script).CombinedOutput()
	require.NoError(t, err, "%s", printed)
	return strings.TrimSpace(string(printed))
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 20*time.Second, 20*time.Millisecond)
}

func TestMachineHasItsOwnNamespaces(t *testing.T) {
	m := start(t)
	require.Equal(t, "m1", run(t, m, "hostname"))
	require.Equal(t, "lo", run(t, m, "ls /sys/class/net"))
	require.NotEmpty(t, run(t, m, "ls /sys/fs/cgroup"))
	// Processes: its process 1 and what runs this command.
	require.Equal(t, "1", strings.Fields(run(t, m, "cd /proc; ls -d [0-9]* | sort -n"))[0])
	host, err := os.Hostname()
	require.NoError(t, err)
	require.NotEqual(t, "m1", host)

	// Files in the folders of the machine are not in those of the host.
	for _, folder := range []string{"/etc", "/opt", "/run", "/var/lib", "/var/log"} {
		file := folder + "/wayleave-machine-test"
		run(t, m, "echo here > "+file)
		require.NoFileExists(t, file)
	}
	network, err := m.NetCommand(t.Context(), "ls", "/sys/class/net").Output()
	require.NoError(t, err)
	require.NotEmpty(t, network) // the host's /sys: only the network namespace is entered
}

func TestMachineIsLostWithItsProcesses(t *testing.T) {
	m := start(t)
	run(t, m, "echo kept > /var/lib/file; echo lost > /run/file")
	require.False(t, m.Configured())
	require.NoError(t, m.Run([]machine.Program{{Name: "sleep", Args: []string{"sleep", "1000"}}}))
	eventually(t, func() bool { return strings.Contains(run(t, m, "cat /proc/[0-9]*/comm"), "sleep") })
	opened, err := machine.Open(m.Config)
	require.NoError(t, err)
	require.Equal(t, m.PID(), opened.PID())
	require.True(t, opened.Configured())

	require.NoError(t, opened.Kill())
	_, err = machine.Open(m.Config)
	require.ErrorIs(t, err, fs.ErrNotExist)

	again, err := machine.Start(t.Context(), m.Config)
	require.NoError(t, err)
	require.False(t, again.Configured())
	require.Equal(t, "kept", run(t, again, "cat /var/lib/file; cat /run/file 2>/dev/null || true"))
	require.NoError(t, again.Remove())
	require.NoDirExists(t, m.Dir)
}

func TestProgramsAreStartedAgain(t *testing.T) {
	m := start(t)
	program := machine.Program{
		Name: "count", Args: []string{"sh", "-c", "echo run $WORD; exec sleep 1000"}, Env: []string{"WORD=x"},
	}
	log := func() string {
		text, _ := os.ReadFile(filepath.Join(m.Logs, "count.log"))
		return string(text)
	}
	runs := func() bool {
		return strings.Contains(run(t, m, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), "sleep 1000")
	}
	require.NoError(t, m.Run([]machine.Program{program}))
	eventually(t, func() bool { return log() == "run x\n" && runs() })
	run(t, m, "kill -9 $(grep -l '^sleep' /proc/[0-9]*/comm | cut -d/ -f3)")
	eventually(t, func() bool { return log() == "run x\nrun x\n" && runs() })

	// A program that is not in the list is stopped, and stays so.
	require.NoError(t, m.Run(nil))
	eventually(t, func() bool { return !runs() })
	require.Equal(t, "run x\nrun x\n", log())
	require.NoError(t, m.Run([]machine.Program{program}))
	eventually(t, func() bool { return log() == "run x\nrun x\nrun x\n" })
}

func TestOrphansAreReaped(t *testing.T) {
	m := start(t)
	require.NoError(t, m.Run([]machine.Program{{Name: "parent", Args: []string{
		"sh", "-c", "for i in 1 2 3; do sh -c 'sleep 0.1 &'; done; echo started; exec sleep 1000",
	}}}))
	eventually(t, func() bool {
		text, _ := os.ReadFile(filepath.Join(m.Logs, "parent.log"))
		states := run(t, m, "cat /proc/[0-9]*/stat | cut -d' ' -f2,3")
		return string(text) == "started\n" && !strings.Contains(states, "(sleep) Z") &&
			strings.Count(states, "(sleep)") == 1
	})
}

func TestControlGroupsAreRemoved(t *testing.T) {
	m := start(t)
	// The root of the machine is its own group, so its groups are below that group on the host.
	// Version 1 has a folder for each hierarchy. In version 2, process 1 is in a group of its own,
	// and the machine's group has all controllers for the groups of pods.
	script, root := `d=/sys/fs/cgroup/pids; grep -x 1 $d/cgroup.procs`, "/sys/fs/cgroup/pids/wayleave-test-machine"
	if controllers, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		script = `d=/sys/fs/cgroup; grep -x 1 $d/init/cgroup.procs; grep -x 0::/init /proc/1/cgroup
			[ "$(cat $d/cgroup.subtree_control)" = "` + strings.TrimSpace(string(controllers)) + `" ]`
		root = "/sys/fs/cgroup/wayleave-test-machine"
	}
	run(t, m, "set -e; "+script+"; mkdir -p $d/a/b")
	require.DirExists(t, root+"/a/b")
	require.NoError(t, m.Remove())
	require.NoDirExists(t, root)
	for _, name := range []string{"", ".", "..", "/a", "../a"} {
		require.ErrorContains(t, machine.RemoveCgroup(name), "is not below the root")
	}
}

// A program that is killed while it starts a machine leaves a process without a pid file.
func TestUnknownProcessIsRemoved(t *testing.T) {
	m := start(t)
	require.NoError(t, os.Remove(filepath.Join(m.Dir, "pid")))
	_, err := machine.Open(m.Config)
	require.Error(t, err)
	require.NoError(t, (&machine.Machine{Config: m.Config}).Remove())
	require.NoDirExists(t, m.Dir)
	require.NoError(t, m.Remove(), "nothing is left")
}

// On a host that also has version 1, the tests run again in a mount namespace that has only version
// 2. Its controllers are those that version 1 does not use.
func TestMachinesOnVersion2(t *testing.T) {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return // the host has only version 2: all tests of this package use it
	}
	root := t.TempDir()
	require.NoError(t, unix.Mount("none", root, "cgroup2", 0, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(root, 0)) })
	control := filepath.Join(root, "cgroup.subtree_control")
	before, err := os.ReadFile(control)
	require.NoError(t, err)
	t.Cleanup(func() { // machines leave the controllers enabled
		after, err := os.ReadFile(control)
		require.NoError(t, err)
		for _, controller := range strings.Fields(string(after)) {
			if !slices.Contains(strings.Fields(string(before)), controller) {
				require.NoError(t, os.WriteFile(control, []byte("-"+controller), 0))
			}
		}
	})
	program, err := os.Executable()
	require.NoError(t, err)
	tests := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-ec",
		`umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"`, "sh",
		program, "-test.v", "-test.run", "^Test(Machine(Has|Is)|ControlGroups|Programs|Orphans)")
	printed, err := tests.CombinedOutput()
	require.NoError(t, err, "%s", printed)
	require.Contains(t, string(printed), "--- PASS: TestControlGroupsAreRemoved")
}

func TestStartReportsWhyAMachineDoesNotRun(t *testing.T) {
	_, err := machine.Start(t.Context(), machine.Config{Name: "m1", Dir: "/var/lib/m1", Logs: t.TempDir()})
	require.ErrorContains(t, err, "machine m1: folder /var/lib/m1 is in /var/lib, which each machine has of its own")

	for _, dir := range []string{"", "/", "/etc", "/opt", "relative", "/tmp/../etc"} {
		_, err := machine.Start(t.Context(), machine.Config{Name: "m1", Dir: dir, Logs: t.TempDir()})
		require.ErrorContains(t, err, "machine m1: folder", dir)
	}

	for _, group := range []string{"", "/a", "../a", "a/"} {
		_, err := machine.Start(t.Context(), machine.Config{
			Name: "m1", Dir: t.TempDir() + "/m1", Logs: t.TempDir(), Cgroup: group,
		})
		require.ErrorContains(t, err, "machine m1: control group", group)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	config := machine.Config{Name: "m1", Dir: t.TempDir() + "/m1", Logs: t.TempDir(), Cgroup: "wayleave-test-ended"}
	_, err = machine.Start(ctx, config)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, machine.RemoveCgroup(config.Cgroup))
}
