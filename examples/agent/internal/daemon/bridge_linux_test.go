// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// TestBridge (S170): an endpoint whose interface is or becomes a port of a bridge is failed, with
// the reason. The endpoint is up once the port is out of the bridge. A new endpoint gets no route.
// An endpoint that has a route keeps it, through an interface that drops.
func TestBridge(t *testing.T) {
	node, dir := shop(t)
	ip := func(args string) string {
		t.Helper()
		var out []byte
		require.NoError(t, node.Do(func() (err error) {
			out, err = exec.Command("ip", strings.Fields(args)...).CombinedOutput()
			return err
		}), "ip %s: %s", args, out)
		return string(out)
	}
	web, late := convert.InterfaceName("shop", "web"), convert.InterfaceName("shop", "late")
	ip("link add name br0 type bridge")
	nstest.NewWorkload(t, node, late, "10.0.0.3")
	ip("link set dev " + late + " master br0")
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	failed := func() (names []string) {
		t.Helper()
		for _, e := range get[[]api.Endpoint](t, r, "/v1/endpoints") {
			if e.State == "failed" {
				require.Contains(t, e.Error, "interface "+e.Interface+" is a port of bridge br0")
				require.Equal(t, e.Key, *e.Object)
				names = append(names, e.Key.Name)
			}
		}
		return names
	}
	faulty := func(s pipeline.State) bool { return s.Err != nil }

	ip("link set dev " + web + " master br0")
	r.until(t, faulty)
	require.Equal(t, []string{"web"}, failed())
	require.Contains(t, ip("route show 10.0.0.1"), "dev "+web)
	write(t, dir, "more.yaml", pod("late", "10.0.0.3"))
	r.until(t, func(s pipeline.State) bool { return s.Err != nil && strings.Contains(s.Err.Error(), late) })
	require.Equal(t, []string{"late", "web"}, failed())
	require.Empty(t, ip("route show 10.0.0.3"))

	ip("link del dev br0")
	r.until(t, well)
	require.Empty(t, failed())
	require.Contains(t, ip("route show 10.0.0.3"), "dev "+late)
	require.Equal(t, map[string]int{"up": 3}, get[api.Status](t, r, "/v1/status").Endpoints)
	r.end(t)
}
