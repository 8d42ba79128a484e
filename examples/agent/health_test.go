// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/health"
)

// The command health reads /livez, or /readyz with --ready. If it fails, it prints the reason.
func TestHealthFailsWithReason(t *testing.T) {
	startAnAgent(t, folderOf(t, map[string]string{"pods.yaml": onePod}))
	for _, args := range [][]string{{"health"}, {"health", "--ready"}} {
		code, out, errs := call(t, args...)
		require.Zero(t, code, errs)
		require.Regexp(t, `^PART +STATE +DETAIL\nsource +ok\n`, out)
	}
	code, out, errs := call(t, "health", "-o", "json")
	require.Zero(t, code, errs)
	require.Contains(t, out, `"ok": true,`)

	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("GET /livez", stuck().Live())
	mux.Handle("GET /readyz", health.New(health.Config{Timeout: time.Hour, Components: []health.Component{
		{Name: "source", Ready: func() string { return "not read yet" }},
	}}).Ready())
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	defer func() { require.NoError(t, server.Close()) }()
	t.Setenv("WAYLEAVE_SOCKET", path)
	code, out, errs = call(t, "health")
	require.Equal(t, 1, code)
	require.Contains(t, out, "source  ok\ngraph   not ok  has made no progress for ")
	require.Regexp(t, "^agent: not healthy: graph: has made no progress for [^;]+\n$", errs)
	code, _, errs = call(t, "health", "--ready")
	require.Equal(t, 1, code)
	require.Equal(t, "agent: not healthy: source: not read yet\n", errs)
}

// stuck returns a checker that reports the part graph as stuck.
func stuck() *health.Checker {
	c := health.New(health.Config{Timeout: time.Nanosecond, Components: []health.Component{
		{Name: "source"}, {Name: "graph", Progress: func() (bool, uint64) { return true, 1 }},
	}})
	c.CheckLive()
	return c
}
