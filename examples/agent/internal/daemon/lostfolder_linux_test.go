// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// A change of settings while the directory of manifests is unreadable restarts the pipeline with
// the last known objects. When the directory is readable again, its objects replace them in one
// change.
func TestSettingsChangeWhileDirectoryIsUnreadable(t *testing.T) {
	r, reread := rereadable(t)
	before := get[api.Ruleset](t, r, "/v1/ruleset")
	moved := r.dir + ".away"
	require.NoError(t, os.Rename(r.dir, moved))
	for i, burst := range []string{"7", "8"} { // the second pipeline passes the objects to a third one
		value, _, problems := reread("apply-burst", map[string]string{"apply-burst": burst})
		require.Equal(t, burst+" from file", value)
		require.Empty(t, problems)
		r.until(t, func(s pipeline.State) bool {
			return well(s) && s.InSync && get[api.Status](t, r, "/v1/status").Restarts == uint64(i+1)
		})
		require.Equal(t, before, get[api.Ruleset](t, r, "/v1/ruleset"))
		status := get[api.Status](t, r, "/v1/status")
		require.True(t, status.Ready)
		require.Equal(t, map[string]int{"up": 2}, status.Endpoints)
		code, body := r.http(t, "/readyz")
		require.Equal(t, 200, code)
		require.Contains(t, body, "manifests cannot be read; its last known objects stay applied")
		require.Contains(t, body, "no such file or directory")
	}

	// An endpoint that is registered meanwhile is programmed.
	nstest.NewWorkload(t, r.node, "way0", "10.0.0.9")
	_, err := api.Send[api.Registered](t.Context(), r.Client, "PUT", "/v1/registry?timeout=20s",
		jsonText(`{"namespace":"shop","name":"new","interface":"way0","addresses":["10.0.0.9"]}`))
	require.NoError(t, err)
	registered := get[api.Ruleset](t, r, "/v1/ruleset").Table

	gone, third := convert.InterfaceName("shop", "cart"), convert.InterfaceName("shop", "third")
	nstest.NewWorkload(t, r.node, third, "10.0.0.3")
	require.NoError(t, os.Remove(filepath.Join(moved, "pods.yaml")))
	write(t, moved, "other.yaml", namespace+pod("web", "10.0.0.1")+pod("third", "10.0.0.3"))
	require.NoError(t, os.Rename(moved, r.dir))
	r.until(t, func(s pipeline.State) bool {
		text := s.Table().String()
		changed := text != registered
		if changed {
			require.True(t, strings.Contains(text, third) && !strings.Contains(text, gone), "both change at once")
		}
		return well(s) && changed
	})
	_, body := r.http(t, "/readyz")
	require.NotContains(t, body, "cannot be read")
	r.end(t)
	log := r.log.String()
	require.Contains(t, log, `level=ERROR msg="the directory cannot be read" source=manifests`)
	require.Contains(t, log, `level=INFO msg="the directory can be read again" source=manifests`)
	require.NotContains(t, log, "msg=rejected", "no object is rejected")
}

// An agent that starts before its directory exists waits for it. It is not ready, and its status
// has the reason.
func TestStartWithoutDirectoryWaits(t *testing.T) {
	for _, missing := range []string{"manifests", "resources"} {
		t.Run(missing, func(t *testing.T) {
			node, dir := shop(t)
			resources := t.TempDir()
			path := map[string]string{"manifests": dir, "resources": resources}[missing]
			away := path + ".away"
			require.NoError(t, os.Rename(path, away))
			r := startWith(t, node, dir, t.TempDir(), map[string]string{"resources": resources})
			r.untilWaiting(t, missing)
			code, body := r.http(t, "/readyz")
			require.Equal(t, 503, code)
			require.Contains(t, body, missing)
			require.Contains(t, body, "no such file or directory")
			code, _ = r.http(t, "/livez")
			require.Equal(t, 200, code)
			require.Contains(t, r.log.String(), "no such file or directory")
			_, err := api.Send[struct{}](t.Context(), r.Client, "POST", "/v1/wait?timeout=1ms",
				api.Wait{Endpoint: "shop/web"})
			require.ErrorContains(t, err, missing)

			require.NoError(t, os.Rename(away, path))
			r.until(t, func(s pipeline.State) bool { return well(s) && s.InSync })
			status := get[api.Status](t, r, "/v1/status")
			require.True(t, status.Ready)
			require.Empty(t, status.Waiting)
			require.Equal(t, map[string]int{"up": 2}, status.Endpoints)
			r.end(t)
		})
	}
}

// untilWaiting waits until the status names a source that the agent waits for, with the reason.
func (r *running) untilWaiting(t *testing.T, source string) {
	t.Helper()
	status := r.awaitStatus(t, func(s api.Status) bool {
		return slices.Contains(s.Waiting, source) && s.Unreadable[source] != ""
	})
	require.False(t, status.Ready)
	require.Contains(t, status.Unreadable[source], "no such file or directory")
}
