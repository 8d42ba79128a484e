// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/daemon"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
)

// rereadable runs an agent on a node with two pods. It returns a function that makes the agent read
// the settings of a file again. The function returns the effective value of a key, the number of
// restarts of the pipeline, and the problems of settings.
func rereadable(t *testing.T) (*running, func(key string, file map[string]string) (string, uint64, []string)) {
	t.Helper()
	node, dir := shop(t)
	file := make(chan []settings.Layer)
	var base settings.Layer
	r := start(t, node, dir, t.TempDir(), func(cfg *daemon.Config) {
		base = cfg.Below[0]
		cfg.Reread = file
	})
	r.until(t, well)
	return r, func(key string, values map[string]string) (string, uint64, []string) {
		t.Helper()
		layer := settings.Layer{Source: "file", Values: maps.Clone(base.Values)}
		maps.Copy(layer.Values, values)
		for range 2 { // when the agent receives the second, it has processed the first
			select {
			case file <- []settings.Layer{layer}:
			case err := <-r.ended:
				t.Fatalf("ended: %v", err)
			}
		}
		value := ""
		for _, v := range get[[]settings.Value](t, r, "/v1/config") {
			if v.Key == key {
				value = v.Value + " from " + v.Origin
			}
		}
		status := get[api.Status](t, r, "/v1/status")
		return value, status.Restarts, status.Settings
	}
}

// Settings that are read again while the agent runs take effect at once, and the kernel state
// stays. Invalid ones, and those that need a restart, are reported and have no effect.
func TestReread(t *testing.T) {
	r, reread := rereadable(t)
	before := get[api.Ruleset](t, r, "/v1/ruleset")
	value, restarts, problems := reread("apply-burst", nil)
	require.Equal(t, "1 from default", value)
	require.Zero(t, restarts, "nothing has changed")
	require.Empty(t, problems)
	value, restarts, _ = reread("log-level", map[string]string{"log-level": "DEBUG"})
	require.Equal(t, "DEBUG from file", value)
	require.Zero(t, restarts, "a new log level needs no restart")

	value, _, problems = reread("apply-burst", map[string]string{"apply-burst": "7"})
	require.Equal(t, "7 from file", value)
	require.Empty(t, problems)
	r.until(t, func(s pipeline.State) bool { return well(s) && get[api.Status](t, r, "/v1/status").Restarts == 1 })
	require.Equal(t, before, get[api.Ruleset](t, r, "/v1/ruleset"))

	// Either all settings take effect or none; every problem is reported.
	value, restarts, problems = reread("apply-burst",
		map[string]string{"apply-burst": "8", "tabel": "x", "resync-interval": "-1s"})
	require.Equal(t, "7 from file", value)
	require.Equal(t, uint64(1), restarts)
	require.Len(t, problems, 2)
	require.Contains(t, problems[0], "file: tabel: there is no such setting")
	require.Contains(t, problems[1], "file: resync-interval: want 0s for never, or more, not -1s")
	require.Regexp(t, `level=ERROR msg="settings that were read again are invalid: none of them takes effect.*`+
		`file: tabel: there is no such setting`, r.log.String())

	value, _, problems = reread("table", map[string]string{"apply-burst": "7", "table": "theirs"})
	require.Equal(t, "wayleave from default", value)
	require.Equal(t,
		[]string{`file: table: "theirs" takes effect at the next start; "wayleave" stays until then`}, problems)
	require.Regexp(t, `level=WARN msg="a setting takes effect with the next start of the agent" err="file: table: `,
		r.log.String())
	_, restarts, problems = reread("table", map[string]string{"apply-burst": "7"})
	require.Equal(t, uint64(1), restarts)
	require.Empty(t, problems, "the setting was reverted")
	r.end(t)
}

// The datastore's settings still take precedence over those that are read again, and problems of
// both are reported.
func TestRereadBelowTheDatastore(t *testing.T) {
	r, reread := rereadable(t)
	object := "apiVersion: wayleave.dev/v1\nkind: AgentConfig\nmetadata: {name: default}\nspec: "
	write(t, r.dir, "settings.yaml", object+"{apply-burst: 5}\n")
	restarted := func(n uint64) {
		r.until(t, func(s pipeline.State) bool { return well(s) && get[api.Status](t, r, "/v1/status").Restarts == n })
	}
	restarted(1)
	value, _, problems := reread("apply-burst", map[string]string{"apply-burst": "7"})
	require.Equal(t, "5 from datastore AgentConfig default (settings.yaml)", value)
	require.Empty(t, problems)
	require.NoError(t, os.Remove(filepath.Join(r.dir, "settings.yaml")))
	restarted(2)
	value, _, _ = reread("apply-burst", map[string]string{"apply-burst": "7"})
	require.Equal(t, "7 from file", value)
	r.end(t)
}
