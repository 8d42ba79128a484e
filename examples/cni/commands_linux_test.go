// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/gobuild"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The commands of docs/agent.md that install the plugin, and that call it with cnitool. The test
// builds the programs, and has a plugin in place of host-local.
func TestCommandsForContainers(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, importPath := range map[string]string{
		"opt/cni/bin/wayleave": "github.com/wayleave/wayleave/examples/cni",
		"bin/agent":            "github.com/wayleave/wayleave/examples/agent",
		"bin/cnitool":          "github.com/containernetworking/cni/cnitool",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path(name)), 0o755))
		require.NoError(t, gobuild.Build(path(name), importPath))
	}
	hostLocal := `#!/bin/sh
[ $CNI_COMMAND != ADD ] || echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.65.0.2/24"}]}'
`
	require.NoError(t, os.WriteFile(path("host-local"), []byte(hostLocal), 0o700))

	page, err := os.ReadFile("../../docs/agent.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "\n### Containers\n")
	require.True(t, ok)
	blocks := regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$").FindAllStringSubmatch(rest, 3)
	require.Len(t, blocks, 3)
	for i, tag := range []string{"sh no-test", "json", "sh no-test"} {
		require.Equal(t, tag, blocks[i][1])
	}
	script := `trap 'kill $(jobs -p)' EXIT
mount -t tmpfs none /run
mount -t tmpfs none /var/lib
mkdir manifests
agent run --node n1 --manifests manifests &
until agent endpoints 2> /dev/null; do sleep 0.1; done
` + blocks[0][2] + "cat > /etc/cni/net.d/10-wayleave.conflist <<'END'\n" + blocks[1][2] + "END\n" + blocks[2][2]
	script = regexp.MustCompile(`(?m)^\(cd examples && go build .*\)$`).ReplaceAllString(script, "")
	script = strings.NewReplacer(
		"apt-get install containernetworking-plugins && ln -s /usr/lib/cni/", "ln -s "+dir+"/",
		"/opt/cni/bin", path("opt/cni/bin"), "/etc/cni/net.d", path("etc/cni/net.d"),
	).Replace(script)

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-ec", script)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that the trap runs
	cmd.Dir, cmd.WaitDelay = dir, waitTimeout
	cmd.Env = append(os.Environ(), "PATH="+path("bin")+":"+os.Getenv("PATH"), "NETCONFPATH="+path("etc/cni/net.d"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	require.NoError(t, node.Do(cmd.Start)) // a process that is started on a thread of the namespace is in it
	require.NoError(t, cmd.Wait(), "%s\n%s", &out, &log)
	require.Contains(t, out.String(), `"10.65.0.2/32"`, "the result of cnitool")
	require.Regexp(t, `(?m)^cni/\S+ .* up `, out.String(), "agent endpoints shows it")
}
