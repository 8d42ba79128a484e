// SPDX-License-Identifier: Apache-2.0

//go:build !noetcdserver

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The commands of docs/agent.md for nodes with one etcd. The test is the node, and changes a policy
// before the last command.
func TestCommandsForEtcd(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca := newAuthority(t, file("ca.pem"))
	ca.issue(file("server.pem"), file("server.key"), time.Now().Add(time.Hour))
	server := startNodeEtcd(t, node, "https", func(cfg *embed.Config) {
		cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = file("server.pem"), file("server.key")
	})
	for _, name := range []string{"policies", "bin"} {
		require.NoError(t, os.Mkdir(file(name), 0o755))
	}
	require.NoError(t, os.WriteFile(file("policies/web.yaml"), []byte(`apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}}
`), 0o600))
	program, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(program, file("bin/agent")))

	_, rest, ok := strings.Cut(page(t), "\n### Many nodes, one etcd\n\n```sh no-test\n")
	require.True(t, ok)
	block, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	const run = "\nagent run "
	require.Contains(t, block, run)
	script := "trap 'kill $(jobs -p)' EXIT\nmount -t tmpfs none /run\n" + strings.NewReplacer(
		"https://10.0.0.5:2379", server.url,
		run, `
agent run --node n1 --endpoint-dir "" &
until agent status | grep '^ready *yes'; do sleep 0.1; done
sed -i 's/app: web/app: shop/' policies/web.yaml
#`,
	).Replace(block)

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-ec", script)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that the trap runs
	cmd.Dir, cmd.WaitDelay = dir, waitTimeout
	cmd.Env = append(os.Environ(), agentMode+"=1", "PATH="+file("bin")+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	require.NoError(t, node.Do(cmd.Start)) // a process that is started on a thread of the namespace is in it
	require.NoError(t, cmd.Wait(), "%s\n%s", &out, &log)
	require.Regexp(t, `(?s)^1 objects are in the store at revision .*\n1 objects are in the store .*\napplied on 1/1\n`,
		out.String(), "apply --wait waits for the node")
}
