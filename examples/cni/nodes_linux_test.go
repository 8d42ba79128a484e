// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// resourcesOf runs the commands of docs/agent.md that describe containers on several nodes, in a
// folder of the test, with the changes given.
func resourcesOf(t *testing.T, changes ...string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/agent.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "#### Containers on several nodes")
	require.True(t, ok)
	_, rest, _ = strings.Cut(rest, "```sh\n")
	script, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	require.Contains(t, script, "/tmp/resources")
	dir := filepath.Join(t.TempDir(), "resources")
	replaced := strings.NewReplacer(append([]string{"/tmp/resources", dir}, changes...)...).Replace(script)
	out, err := exec.Command("sh", "-ec", replaced).CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

// Containers on two nodes reach each other, directly and through a tunnel, as in docs/agent.md.
func TestContainersOnTwoNodes(t *testing.T) {
	for name, changes := range map[string][]string{
		"plain": nil,
		"tunnel": {
			`"cidr": "10.65.0.0/16"}`, `"cidr": "10.65.0.0/16", "vxlanMode": "Always"}`,
			`"addresses": ["192.0.2.1/24"]`, `"addresses": ["192.0.2.1/24"], "ipv4VXLANTunnelAddr": "10.65.1.1"`,
			`"addresses": ["192.0.2.2/24"]`, `"addresses": ["192.0.2.2/24"], "ipv4VXLANTunnelAddr": "10.65.2.1"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			resources := resourcesOf(t, changes...)
			first, second := newRig(t), newRig(t)
			_, _, err := netns.Veth(netns.End{NS: first.node, Name: "eth0"}, netns.End{NS: second.node, Name: "eth0"})
			require.NoError(t, err)
			containers := map[*rig]*netns.NS{}
			for r, address := range map[*rig]string{first: "192.0.2.1/24", second: "192.0.2.2/24"} {
				require.NoError(t, r.node.Do(func() error {
					return errors.Join(
						exec.Command("ip", "addr", "add", address, "dev", "eth0").Run(),
						// of a real node's, the administrator
						exec.Command("ip", "link", "set", "eth0", "up").Run(),
						os.WriteFile("/proc/sys/net/ipv4/conf/eth0/forwarding", []byte("1"), 0),
					)
				}))
				r.network = "wayleave"
				r.configure("1.0.0")
			}
			first.startAgent("--node", "n1", "--resources", resources)
			second.startAgent("--node", "n2", "--resources", resources)
			containers[first], containers[second] = nstest.New(t), nstest.New(t)
			first.must("add", containers[first], "10.65.1.9/32")
			second.must("add", containers[second], "10.65.2.9/32")
			there := func() bool { return first.reaches(containers[first], containers[second], "10.65.2.9:80") }
			// It polls: the kernel resolves the other node's address only when there are packets.
			ticker := time.NewTicker(20 * time.Millisecond)
			defer ticker.Stop()
			for deadline := time.Now().Add(waitTimeout); !there(); <-ticker.C {
				require.False(t, time.Now().After(deadline), "from n1 to n2")
			}
			require.True(t, second.reaches(containers[second], containers[first], "10.65.1.9:80"), "from n2 to n1")
			routes, err := api.Get[[]api.Route](t.Context(), first.client, "/v1/routes")
			require.NoError(t, err)
			require.Contains(t, routes, api.Route{
				Dst: "10.65.2.0/24", Type: "remote-workload", Node: "n2", Via: "192.0.2.2",
				Pool: map[string]string{"plain": "direct", "tunnel": "vxlan"}[name],
			})
			first.must("del", containers[first], "")
			second.must("del", containers[second], "")
			first.stopAgent()
			second.stopAgent()
		})
	}
}
