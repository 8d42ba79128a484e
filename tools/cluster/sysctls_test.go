// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// sysctlsTest has parameters that are all 1.
type sysctlsTest struct {
	*testing.T
	hostSysctls
}

func newSysctlsTest(t *testing.T) sysctlsTest {
	t.Helper()
	s := sysctlsTest{t, hostSysctls{parameters: t.TempDir(), shared: filepath.Join(t.TempDir(), "shared")}}
	for _, name := range kubeletSysctls() {
		require.FileExists(t, filepath.Join("/proc/sys", name))
		s.set(name, "1\n")
	}
	return s
}

func (s sysctlsTest) set(name, value string) {
	makeFile(s.T, filepath.Join(s.parameters, name), value)
}

func (s sysctlsTest) require(name, want string) {
	s.Helper()
	value, err := os.ReadFile(filepath.Join(s.parameters, name))
	require.NoError(s.T, err)
	require.Equal(s.T, want, string(value), name)
}

func TestSysctlsAreRestored(t *testing.T) {
	s := newSysctlsTest(t)
	cluster := t.TempDir()
	require.NoError(t, s.restore(cluster), "nothing was saved")
	require.NoError(t, s.save(cluster))
	s.set("kernel/panic", "10\n")
	s.set("vm/other", "5\n")
	require.NoError(t, s.restore(cluster))
	s.require("kernel/panic", "1\n")
	s.require("vm/panic_on_oom", "1\n")
	s.require("vm/other", "5\n")
	require.NoDirExists(t, s.shared)

	s.set("kernel/panic", "3\n")
	require.NoError(t, s.restore(cluster), "again")
	s.require("kernel/panic", "3\n")
	require.NoError(t, os.Remove(filepath.Join(s.parameters, "kernel/panic")))
	require.ErrorIs(t, s.save(cluster), os.ErrNotExist)
	require.NoDirExists(t, s.shared)
}

func TestLastClusterRestoresSysctls(t *testing.T) {
	s := newSysctlsTest(t)
	a, b := t.TempDir(), t.TempDir()
	require.NoError(t, s.save(a))
	s.set("kernel/panic", "10\n") // kubelet of a
	require.NoError(t, s.save(b))
	require.NoError(t, s.restore(a))
	s.require("kernel/panic", "10\n")
	require.NoError(t, s.restore(a))
	s.require("kernel/panic", "10\n")
	require.NoError(t, s.restore(b))
	s.require("kernel/panic", "1\n")
}

// If the folder of a cluster was deleted, the next cluster restores the values from before the
// first one.
func TestSysctlsOfDeletedClusterAreRestored(t *testing.T) {
	s := newSysctlsTest(t)
	deleted, next := filepath.Join(t.TempDir(), "state"), t.TempDir()
	require.NoError(t, os.Mkdir(deleted, 0o755))
	require.NoError(t, s.save(deleted))
	s.set("kernel/panic", "10\n")
	require.NoError(t, os.Remove(deleted))
	require.NoError(t, s.save(next))
	require.NoError(t, s.restore(next))
	s.require("kernel/panic", "1\n")
	require.NoDirExists(t, s.shared)
}

func TestConcurrentSaveAndRestore(t *testing.T) {
	s := newSysctlsTest(t)
	var group sync.WaitGroup
	for range 8 {
		cluster := t.TempDir()
		group.Go(func() {
			for range 20 {
				if s.save(cluster) != nil || s.restore(cluster) != nil {
					t.Error("cannot save or restore")
				}
			}
		})
	}
	group.Wait()
	require.NoDirExists(t, s.shared)
}
