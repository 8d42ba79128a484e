// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/gobuild"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// nft runs nft on the node, and returns its output.
func nft(t *testing.T, node *netns.NS, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command("nft", args...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if path, err := exec.LookPath("/usr/sbin/nft"); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Stdout, cmd.Stderr = &out, &out
	err := node.Do(cmd.Run)
	if refused := (*exec.ExitError)(nil); !errors.As(err, &refused) { // the caller checks the output of a refusal
		require.NoError(t, err)
	}
	return out.String()
}

// ip runs ip on the node, and returns its output.
func ip(t *testing.T, node *netns.NS, args ...string) string {
	t.Helper()
	var out []byte
	require.NoError(t, node.Do(func() (err error) {
		out, err = exec.Command("ip", args...).CombinedOutput()
		return err
	}), string(out))
	return string(out)
}

// Manifests that are replaced by invalid files are absent, so no packet passes, and the log has the
// files and errors.
func TestInvalidManifestsAreAbsent(t *testing.T) {
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	iface := `"` + convert.InterfaceName("shop", "web") + `"`
	require.Contains(t, nft(t, node, "list", "table", "inet", "wayleave"), iface)
	write(t, dir, "pods.yaml", "\x00\xff garbage {{{")
	write(t, dir, "policy.yaml", "kind: NetworkPolicy\nspec: [")
	r.until(t, func(s pipeline.State) bool { return well(s) && !strings.Contains(s.Table().String(), iface) })
	require.NotContains(t, nft(t, node, "list", "table", "inet", "wayleave"), iface,
		"without an endpoint, the interface is not in the table")
	require.Contains(t, r.log.String(), "file=pods.yaml")
	require.Contains(t, r.log.String(), "not UTF-8")
	require.True(t, get[api.Status](t, r, "/v1/status").Ready)

	write(t, dir, "pods.yaml", namespace+pod("web", "10.0.0.1")+pod("cart", "10.0.0.2"))
	write(t, dir, "policy.yaml", allow("cart", "web", 80))
	r.until(t, func(s pipeline.State) bool { return well(s) && strings.Contains(s.Table().String(), iface) })
	r.end(t)
}

// S174: `flush ruleset` by another process leaves the agent's table unchanged, and `delete table`
// fails.
func TestFlushRulesetKeepsTheTable(t *testing.T) {
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	want := nft(t, node, "-s", "list", "table", "inet", "wayleave")
	nstest.SkipUnlessOwned(t, strings.Contains(want, "flags owner"))
	require.Empty(t, nft(t, node, "flush", "ruleset"))
	require.Contains(t, nft(t, node, "delete", "table", "inet", "wayleave"), "Operation not permitted")
	require.Equal(t, want, nft(t, node, "-s", "list", "table", "inet", "wayleave"))
	write(t, dir, "policy.yaml", allow("cart", "web", 81))
	r.until(t, func(s pipeline.State) bool { return well(s) && strings.Contains(s.Table().String(), "81") })
	require.Zero(t, get[api.Status](t, r, "/v1/status").Drifts)
	r.end(t)
	require.Empty(t, nft(t, node, "delete", "table", "inet", "wayleave"), "once the agent has ended")
}

// The agent restores a ruleset that another process flushes repeatedly. It needs no timer for that.
// The log names the process. Only a shared table can be flushed.
func TestFlushedRulesetIsRestored(t *testing.T) {
	const times = 20
	node, dir := shop(t)
	r := startWith(t, node, dir, t.TempDir(), map[string]string{"resync-interval": "0s", "shared-table": "true"})
	r.until(t, well)
	want := nft(t, node, "-s", "list", "table", "inet", "wayleave")
	require.Contains(t, want, "table inet wayleave {")
	for range times {
		require.Empty(t, nft(t, node, "flush", "ruleset"))
		r.until(t, func(pipeline.State) bool { return nft(t, node, "-s", "list", "table", "inet", "wayleave") == want })
	}
	status := get[api.Status](t, r, "/v1/status")
	require.False(t, status.Ready, "not ready during a dispute")
	require.Len(t, status.Disputes, 1)
	require.Contains(t, status.Disputes[0], "nft: table inet wayleave is changed repeatedly by nft (")
	require.NotZero(t, status.Drifts)
	require.NotZero(t, status.Repairs)
	require.Contains(t, r.log.String(), `msg="drift detected" backend=nft object="table inet wayleave" process="nft (`)

	// Changes are programmed meanwhile.
	write(t, dir, "policy.yaml", allow("cart", "web", 81))
	r.until(t, func(s pipeline.State) bool { return well(s) && strings.Contains(s.Table().String(), "81") })
	require.NotEqual(t, want, nft(t, node, "-s", "list", "table", "inet", "wayleave"))
	r.end(t)
}

// If the interfaces of 200 endpoints disappear at once, each is reported with the cause, and others
// are not delayed.
func TestVanishedInterfacesAreReported(t *testing.T) {
	const many = 200
	node, dir := shop(t)
	var pods strings.Builder
	for i := range many {
		name := fmt.Sprintf("p%d", i)
		_, _, err := netns.Veth(netns.End{NS: node, Name: convert.InterfaceName("shop", name)},
			netns.End{NS: node, Name: fmt.Sprintf("peer%d", i)})
		require.NoError(t, err)
		pods.WriteString(pod(name, fmt.Sprintf("10.1.0.%d", i+1)))
	}
	write(t, dir, "many.yaml", pods.String())
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	require.Equal(t, map[string]int{"up": many + 2}, get[api.Status](t, r, "/v1/status").Endpoints)

	for i := range many {
		require.NoError(t, node.DeleteLink(fmt.Sprintf("peer%d", i)))
	}
	status := r.awaitStatus(t, func(s api.Status) bool { return s.Endpoints["down"] == many })
	require.Equal(t, map[string]int{"up": 2, "down": many}, status.Endpoints)
	require.Empty(t, status.LastError)
	require.Zero(t, status.Failed)
	require.True(t, status.Ready)
	nstest.NewWorkload(t, node, convert.InterfaceName("shop", "late"), "10.0.0.3")
	write(t, dir, "late.yaml", pod("late", "10.0.0.3"))
	_, err := api.Send[struct{}](t.Context(), r.Client, "POST", "/v1/wait", api.Wait{Endpoint: "shop/late"})
	require.NoError(t, err, "other connections continue")

	require.NoError(t, os.Remove(filepath.Join(dir, "many.yaml")))
	r.awaitStatus(t, func(s api.Status) bool { return s.Endpoints["down"] == 0 })
	require.Equal(t, map[string]int{"up": 3}, get[api.Status](t, r, "/v1/status").Endpoints)
	r.end(t)
}

// An agent without rights reports the missing rights, and ends.
func TestWithoutRights(t *testing.T) {
	node, dir := shop(t)
	state := t.TempDir()
	binary := filepath.Join(state, "agent")
	err := gobuild.Build(binary, "github.com/wayleave/wayleave/examples/agent")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "run", "--node", "n", "--manifests", dir, "--http-address", "",
		"--socket", filepath.Join(state, "s"), "--endpoint-dir", filepath.Join(state, "endpoints"))
	// The process is root in a user namespace to which the network namespace does not belong.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = node.Do(cmd.Run)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, stderr.String())
	require.Equal(t, 1, exit.ExitCode(), stderr.String())
	require.Contains(t, stderr.String(), "run needs root, or CAP_NET_ADMIN in the network namespace")
}
