// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/settings"
)

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const stored = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: wayleave.dev/v1
kind: AgentConfig
metadata: {name: default}
spec:
  log-level: DEBUG
  apply-burst: 3
  resync-interval: 1h
---
apiVersion: wayleave.dev/v1
kind: AgentConfig
metadata: {name: node.n1}
spec: {apply-burst: 4}
--- # the last
kind: Pod
`

func TestEverySourceHasItsSay(t *testing.T) {
	found, rest := settings.Extract("a.yaml", []byte(stored))
	require.Equal(t, strings.Count(stored, "\n"), strings.Count(string(rest), "\n"), "lines keep their numbers")
	require.NotContains(t, string(rest), "AgentConfig")
	require.Contains(t, string(rest), "kind: Namespace\nmetadata: {name: shop}\n---\n\n")
	require.Contains(t, string(rest), "--- # the last\nkind: Pod\n")

	flags := flag.NewFlagSet("", flag.ContinueOnError)
	var s settings.Settings
	settings.Declare(flags, &s)
	config := flags.String("config", "", "none of the settings")
	require.NoError(t, flags.Parse([]string{"--config", "x", "--table", "mine"}))
	require.Equal(t, "x", *config)
	path := file(t, "node: n1 # a comment\napply-burst: 2\nresync-interval: 5m\nforward-ipv6: true\n")
	e, err := settings.Resolve(
		settings.Environment([]string{"PATH=/bin", "WAYLEAVE_NODE=env", "WAYLEAVE_APPLY_INTERVAL=20ms", "WAYLEAVE_CONFIG=y", "WAYLEAVE_IN_USER_NAMESPACE=1"}),
		settings.File(path), found[settings.Global], found[settings.OfNode("n1")], settings.CommandLine(flags),
	)
	require.NoError(t, err)
	require.Equal(t, "n1", e.Node)
	require.Equal(t, "mine", e.Table)
	require.Equal(t, 4, e.ApplyBurst)
	require.Equal(t, 20*time.Millisecond, e.ApplyInterval)
	require.Equal(t, time.Hour, e.ResyncInterval)
	require.Equal(t, slog.LevelDebug, e.LogLevel)
	require.True(t, e.ForwardIPv6)
	origins := map[string]string{}
	for _, v := range e.Values {
		origins[v.Key] = v.Origin
	}
	require.Equal(t, "environment", origins["apply-interval"])
	require.Equal(t, "file "+path, origins["node"])
	require.Equal(t, "datastore AgentConfig default (a.yaml)", origins["log-level"])
	require.Equal(t, "datastore AgentConfig node.n1 (a.yaml)", origins["apply-burst"])
	require.Equal(t, "command line", origins["table"])
	require.Equal(t, "default", origins["socket"])
	require.Contains(t, e.String(), `apply-burst        "4"  `)
	require.Len(t, e.Values, 27)
}

// Every problem of every source is reported, with source and key.
func TestAllProblemsAreReported(t *testing.T) {
	found, _ := settings.Extract("b.yaml", []byte(
		"apiVersion: wayleave.dev/v1\nkind: AgentConfig\nmetadata: {name: default}\nspec: {trust-annotations: true, log-level: LOUD}\n"+
			"---\napiVersion: wayleave.dev/v1\nkind: AgentConfig\nmetadata: {name: all}\nspec: [1]\n"))
	path := file(t, "apply-burst: 0\nhealth-timeout: soon\ntabel: x\nnode: [a]\nsocket: a\nsocket: b\n")
	_, err := settings.Resolve(
		settings.Environment([]string{"WAYLEAVE_FROB=1", "WAYLEAVE_APPLY_INTERVAL=-1s"}),
		settings.File(path), settings.File("/does/not/exist"), found["default"], found["all"],
	)
	for _, want := range []string{
		"environment: frob: there is no such setting",
		"environment: apply-interval: must not be negative",
		"file " + path + ": apply-burst: must be at least 1",
		"file " + path + `: health-timeout: "soon" makes no sense`,
		"file " + path + ": tabel: there is no such setting",
		"file " + path + ": node: line 4: want a single value",
		"file /does/not/exist: open",
		"datastore AgentConfig default (b.yaml): trust-annotations: cannot be set in the datastore",
		`datastore AgentConfig default (b.yaml): log-level: "LOUD"`,
		`datastore AgentConfig all (b.yaml): the name must be "default"`,
		"datastore AgentConfig all (b.yaml): line 5: want keys and values",
	} {
		require.ErrorContains(t, err, want)
	}
	require.ErrorIs(t, err, os.ErrNotExist)
	var p *settings.Problem
	require.True(t, errors.As(err, &p))
	_, err = settings.Resolve(settings.File(file(t, "just words\n")), settings.File(file(t, "a: b: c")), settings.File(file(t, "")))
	require.ErrorContains(t, err, "want keys and values")
	require.ErrorContains(t, err, "mapping values are not allowed")
}

// What is no settings stays as it is, byte by byte.
func TestExtractLeavesManifestsAlone(t *testing.T) {
	for _, text := range []string{
		"", "kind: Pod\n---\n", "{\"kind\": \"List\"}", "# AgentConfig\nkind: Pod\n", "kind: AgentConfig\napiVersion: other/v1\n", "AgentConfig: [",
	} {
		found, rest := settings.Extract("a", []byte(text))
		require.Empty(t, found)
		require.Equal(t, text, string(rest))
	}
	found, rest := settings.Extract("a.json", []byte(`{"apiVersion":"wayleave.dev/v1","kind":"AgentConfig","metadata":{"name":"default"},"spec":{"apply-burst":7}}`))
	require.Equal(t, "7", found["default"].Values["apply-burst"])
	require.Empty(t, rest)
}

// What cannot change while the agent runs stays, whichever source wants another; all else counts.
func TestPin(t *testing.T) {
	resolve := func(layers ...settings.Layer) *settings.Effective {
		e, err := settings.Resolve(layers...)
		require.NoError(t, err)
		return e
	}
	before := resolve(settings.File(file(t, "table: ours\nhealth-timeout: 1m\napply-burst: 2\n")))
	again := settings.File(file(t, "table: theirs\nsocket: /run/other\nhealth-timeout: 60s\napply-burst: 3\n"))
	kept, err := settings.Pin(before, resolve(again))
	require.ErrorContains(t, err, again.Source+`: socket: "/run/other" counts from the next start of the agent on, "/run/wayleave/agent.sock" until then`)
	require.ErrorContains(t, err, `table: "theirs" counts from`)
	require.Len(t, kept, 2)
	e := resolve(append([]settings.Layer{again}, kept...)...)
	require.Equal(t, "ours", e.Table)
	require.Equal(t, settings.DefaultSocket, e.Socket)
	require.Equal(t, 3, e.ApplyBurst)
	kept, err = settings.Pin(before, before)
	require.NoError(t, err)
	require.Empty(t, kept)
}
