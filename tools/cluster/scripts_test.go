// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// makeFile writes a file, an executable one if it is a script.
func makeFile(t *testing.T, file, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(content), 0o755))
}

// copyFile copies a file of the repository to the same place of another folder.
func copyFile(t *testing.T, file, folder string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", file))
	require.NoError(t, err)
	makeFile(t, filepath.Join(folder, file), string(content))
}

func TestCleanKeepsARunningCluster(t *testing.T) {
	folder := t.TempDir()
	copyFile(t, "Makefile", folder)
	state := filepath.Join(folder, "bin/cluster-state/options.json")
	makeFile(t, state, "{}")
	clean := func() (string, error) {
		printed, err := exec.CommandContext(t.Context(), "make", "-C", folder, "clean").CombinedOutput()
		return string(printed), err
	}
	printed, err := clean()
	require.Error(t, err)
	require.Contains(t, printed, "run 'make cluster-down' first")
	require.FileExists(t, state)

	require.NoError(t, os.RemoveAll(filepath.Dir(state)))
	printed, err = clean()
	require.NoError(t, err, printed)
	require.NoDirExists(t, filepath.Join(folder, "bin"))
}
