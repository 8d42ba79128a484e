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

// fakePrograms returns a function that runs a copy of scripts/cluster-programs with other programs
// than the host's. 'go list' there finds no module that 'go mod download' has not downloaded.
func fakePrograms(t *testing.T) (folder, path string, run func() (string, error)) {
	t.Helper()
	folder, path = t.TempDir(), t.TempDir()
	copyFile(t, "scripts/cluster-programs", folder)
	for _, name := range []string{"kubernetes-programs", "build-suites"} {
		makeFile(t, filepath.Join(folder, "scripts", name), "#!/bin/sh\n")
	}
	for _, name := range []string{"kubernetes", "conformance", "cyclonus", "cluster"} {
		require.NoError(t, os.MkdirAll(filepath.Join(folder, "tools", name), 0o755))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "examples"), 0o755))
	makeFile(t, filepath.Join(folder, "bin/containerd/usr/bin/containerd"), "")
	makeFile(t, filepath.Join(folder, "bin/kubernetes/e2e.test"),
		"#!/bin/sh\necho registry.example/e2e-test-images/agnhost:1\necho registry.example/pause:3\n")

	for _, name := range []string{
		"ip", "nft", "iptables", "conntrack", "wget", "nsenter", "ipset", "curl", "dig", "nc", "ping", "pgrep",
	} {
		makeFile(t, filepath.Join(path, name), "#!/bin/sh\n")
	}
	makeFile(t, filepath.Join(path, "id"), "#!/bin/sh\necho 1000\n")
	makeFile(t, filepath.Join(path, "go"), `#!/bin/sh
cache=`+folder+`/cache/$(basename "$PWD")
case "$1 $2" in
"mod download")
	[ -z "$OFFLINE" ] || exit 1
	mkdir -p "$cache/test/images/agnhost/porter" "$cache/config/crd/experimental" "$cache/conformance" "$cache/pkg"
	touch "$cache/test/images/agnhost/porter/localhost.crt" "$cache/test/images/agnhost/porter/localhost.key"
	for dir in conformance pkg; do echo registry.example/e2e-test-images/agnhost:2 >"$cache/$dir/images.go"; done ;;
"list -m") [ ! -d "$cache" ] || echo "$cache" ;;
esac
`)
	for _, name := range []string{
		"bash", "sh", "env", "dirname", "basename", "mkdir", "cat", "touch", "find", "grep", "sort", "uniq", "awk",
		"sed", "cmp", "cp", "rm", "install",
	} {
		program, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(program, filepath.Join(path, name)))
	}
	return folder, path, func() (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "scripts/cluster-programs"))
		cmd.Env = append(os.Environ(), "PATH="+path)
		printed, err := cmd.CombinedOutput()
		return string(printed), err
	}
}

func TestProgramsInstallProcps(t *testing.T) {
	_, path, run := fakePrograms(t)
	require.NoError(t, os.Remove(filepath.Join(path, "pgrep")))
	printed, err := run()
	require.Error(t, err)
	require.Contains(t, printed, "to install procps and")
}

func TestProgramsDownloadModules(t *testing.T) {
	folder, _, run := fakePrograms(t)
	printed, err := run()
	require.NoError(t, err, printed)
	require.FileExists(t, filepath.Join(folder, "bin/cluster-programs/localhost.crt"))

	t.Setenv("OFFLINE", "1")
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "cache")))
	printed, err = run()
	require.Error(t, err)
	require.Contains(t, printed, "module k8s.io/kubernetes of tools/kubernetes is not in the module cache")
}
