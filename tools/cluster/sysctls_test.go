// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSysctlsAreRestored(t *testing.T) {
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "saved")
	set := func(name, value string) {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(value), 0o600))
	}
	require.NoError(t, restoreSysctls(folder, file), "nothing was saved")
	require.ErrorIs(t, saveSysctls(folder, file), os.ErrNotExist)
	for _, name := range kubeletSysctls() {
		require.FileExists(t, filepath.Join("/proc/sys", name))
		set(name, "1\n")
	}
	require.NoError(t, saveSysctls(folder, file))
	set("kernel/panic", "10\n")
	set("vm/other", "5\n")
	require.NoError(t, restoreSysctls(folder, file))
	for name, want := range map[string]string{"kernel/panic": "1\n", "vm/panic_on_oom": "1\n", "vm/other": "5\n"} {
		value, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		require.Equal(t, want, string(value), name)
	}
}
