// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Without CAP_NET_ADMIN, run and teardown fail before they make a directory or wait for one. The
// error names the missing right.
func TestRightsAreCheckedFirst(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	socket, endpoints := filepath.Join(dir, "run", "agent.sock"), filepath.Join(dir, "endpoints")
	for _, args := range [][]string{
		{
			"run", "--node", "n1", "--socket", socket, "--http-address", "", "--endpoint-dir", endpoints, "--manifests",
			filepath.Join(dir, "missing"),
		},
		{"teardown", "--socket", socket},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
		cmd.Env = append(os.Environ(), agentMode+"=1")
		// In its own user namespace, the process has all rights on files, and none on the network.
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		var out []byte
		require.Error(t, node.Do(func() (err error) {
			out, err = cmd.CombinedOutput()
			return err
		}), "%s", out)
		require.Contains(t, string(out), "agent: "+args[0]+" needs root, or CAP_NET_ADMIN in the network namespace")
		made, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, made, args[0])
	}
}
