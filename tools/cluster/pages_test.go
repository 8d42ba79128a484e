// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPagesHaveCommands(t *testing.T) {
	for page, first := range map[string]string{
		"../../docs/migrate.md":    "mkdir before\n",
		"../../docs/kubernetes.md": "kubectl apply -f datastore/kubernetes/report/crd.yaml ",
	} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		blocks := clusterBlocks(string(text))
		require.Equal(t, strings.Count(string(text), "```sh cluster\n"), len(blocks), page)
		require.True(t, strings.HasPrefix(blocks[0], first), blocks[0])
	}
}

// A command that is to answer fails if it does not, and one that is to time out fails if it
// answers. Both are repeated for a while.
func TestPageScript(t *testing.T) {
	folder := t.TempDir()
	run := func(seconds, block string) (string, error) {
		script := strings.Replace(pageScript(block, "agent-1"), "SECONDS + 30", "SECONDS + "+seconds, 1)
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("1", "echo to POD --image=nginx\necho --image=busybox\n")
	require.NoError(t, err, out)
	require.Contains(t, out, "to agent-1 --image=cluster.local/pages:dev\n")
	for command, works := range map[string]bool{
		"true   # answers": true, `sh -c "sleep 3; exit 1"   # times out`: true,
		"false # answers": false, "true # times out": false, "mkdir sub/dir # times out": false,
		"false": false, "false | true": false,
	} {
		out, err := run("1", command+"\n")
		require.Equal(t, works, err == nil, "%s\n%s", command, out)
	}
	out, err = run("30", "(sleep 0.6; touch ready) &\ntest -e ready # answers\n")
	require.NoError(t, err, out)
}
