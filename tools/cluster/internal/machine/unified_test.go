// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fakeKernel keeps the rules of cgroups(7) for the writes to a tree of folders.
type fakeKernel struct {
	root    string
	enabled map[string][]string // by group: controllers of cgroup.subtree_control
	process string              // the group of the only process
	refused string              // a controller that cannot be enabled
	moves   []string
}

func (k *fakeKernel) write(file, value string) error {
	group, name := filepath.Split(file)
	group = filepath.Clean(group)
	if _, err := os.Stat(group); err != nil {
		return err
	}
	isRoot := group == k.root
	if name == "cgroup.procs" {
		if !isRoot && len(k.enabled[group]) > 0 {
			return unix.EBUSY
		}
		k.process = group
		k.moves = append(k.moves, strings.TrimPrefix(group, k.root))
		return nil
	}
	controller := strings.TrimPrefix(value, "+")
	switch {
	case !isRoot && !slices.Contains(k.enabled[filepath.Dir(group)], controller):
		return unix.ENOENT
	case !isRoot && k.process == group:
		return unix.EBUSY
	case controller == k.refused:
		return unix.EOPNOTSUPP
	}
	k.enabled[group] = append(k.enabled[group], controller)
	return nil
}

func newFakeKernel(t *testing.T) *fakeKernel {
	t.Helper()
	root := t.TempDir()
	err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpu io memory pids\n"), 0o600)
	require.NoError(t, err)
	return &fakeKernel{root: root, enabled: map[string][]string{}, process: root}
}

func TestUnifiedMachineDelegatesControllers(t *testing.T) {
	kernel := newFakeKernel(t)
	tree := unifiedTree{root: kernel.root, write: kernel.write}
	namespace := ""
	unshare := func() error {
		namespace = kernel.process
		return nil
	}
	group := filepath.Join(kernel.root, "cluster/node1")
	all := []string{"cpu", "io", "memory", "pids"}

	require.NoError(t, tree.enter("cluster/node1", unshare))
	require.Equal(t, group, namespace)
	require.Equal(t, []string{"/cluster/node1", "/cluster/node1/init"}, kernel.moves)
	for _, path := range []string{"", "cluster", "cluster/node1"} {
		require.Equal(t, all, kernel.enabled[filepath.Join(kernel.root, path)], path)
	}
	// A container runtime enables controllers from the root of its namespace down.
	pods := filepath.Join(group, "pods")
	require.NoError(t, os.MkdirAll(filepath.Join(pods, "pod1"), 0o755))
	for _, path := range []string{group, pods} {
		require.NoError(t, kernel.write(filepath.Join(path, "cgroup.subtree_control"), "+memory"), path)
	}
	require.NoError(t, kernel.write(filepath.Join(pods, "pod1/cgroup.procs"), "0"))

	// A machine that starts again finds the groups of the last one. Its new group has no
	// controllers.
	removed := filepath.Join(pods, "pod1")
	delete(kernel.enabled, group)
	require.NoError(t, tree.enter("cluster/node1", unshare))
	require.NoDirExists(t, removed)
	require.Equal(t, filepath.Join(group, "init"), kernel.process)
}

func TestUnifiedControllersThatTheKernelRefuses(t *testing.T) {
	unshare := func() error { return nil }
	for refused, want := range map[string]string{"io": "", "memory": "enable controller memory in control group"} {
		kernel := newFakeKernel(t)
		kernel.refused = refused
		err := unifiedTree{root: kernel.root, write: kernel.write}.enter("node1", unshare)
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, []string{"cpu", "memory", "pids"}, kernel.enabled[filepath.Join(kernel.root, "node1")])
			continue
		}
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, unix.EOPNOTSUPP)
	}
}

// The kernel's own tree has those controllers that version 1 does not use on this host.
func TestUnifiedTreeOfTheKernel(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, unix.Mount("none", root, "cgroup2", 0, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(root, 0)) })
	read := func(path string) []string {
		content, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		return strings.Fields(string(content))
	}
	const cluster = "wayleave-test-unified"
	enabled := read("cgroup.subtree_control")
	t.Cleanup(func() {
		require.NoError(t, removeGroups(filepath.Join(root, cluster)))
		for _, controller := range read("cgroup.subtree_control") {
			if !slices.Contains(enabled, controller) {
				require.NoError(t, writeExisting(filepath.Join(root, "cgroup.subtree_control"), "-"+controller))
			}
		}
	})
	tree := unifiedTree{root: root}
	for range 2 { // the second time, the groups of a killed machine exist
		process := exec.Command("sleep", "1000")
		require.NoError(t, process.Start())
		ended := false
		end := func() {
			if !ended {
				ended = true
				_ = process.Process.Kill()
				_ = process.Wait()
			}
		}
		t.Cleanup(end)
		pid := strconv.Itoa(process.Process.Pid)
		tree.write = func(file, value string) error {
			if value == "0" {
				value = pid
			}
			return writeExisting(file, value)
		}
		require.NoError(t, tree.enter(cluster+"/node1", func() error { return nil }))
		require.Empty(t, read(cluster+"/node1/cgroup.procs"))
		require.Equal(t, []string{pid}, read(cluster+"/node1/init/cgroup.procs"))
		for _, group := range []string{cluster, cluster + "/node1", cluster + "/node1/init"} {
			require.Equal(t, read("cgroup.subtree_control"), read(group+"/cgroup.controllers"), group)
		}
		// These are the writes of a container runtime.
		pod := filepath.Join(root, cluster, "node1/pods/pod1")
		require.NoError(t, os.MkdirAll(pod, 0o755))
		require.NoError(t, tree.enable(filepath.Dir(pod), read(cluster+"/node1/pods/cgroup.controllers")))
		require.Equal(t, read(cluster+"/node1/cgroup.controllers"), read(cluster+"/node1/pods/pod1/cgroup.controllers"))
		require.NoError(t, tree.write(filepath.Join(pod, "cgroup.procs"), "0"))
		end()
	}
}
