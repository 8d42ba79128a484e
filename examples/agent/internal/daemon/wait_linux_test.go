// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/daemon"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Whoever waits in vain is told why.
func TestWaitInVain(t *testing.T) {
	node, dir := shop(t)
	write(t, dir, "more.yaml", pod("late", "10.0.0.3")+strings.ReplaceAll(pod("away", "10.0.0.4"), "nodeName: n", "nodeName: another"))
	state := t.TempDir()
	r := start(t, node, dir, state)
	r.until(t, func(s pipeline.State) bool { return s.Err != nil && s.Events > 0 }) // late has no interface
	for endpoint, want := range map[string]string{
		"shop/nobody": "shop/nobody is not programmed after 10ms: no source has such an endpoint",
		"shop/away":   "shop/away: pipeline: the endpoint is another node's",
		"shop/late":   "no such interface",
	} {
		_, err := api.Send[struct{}](t.Context(), r.Client, http.MethodPost, "/v1/wait?timeout=10ms", api.Wait{Endpoint: endpoint})
		require.ErrorContains(t, err, want)
	}
	_, err := api.Send[struct{}](t.Context(), r.Client, http.MethodPost, "/v1/wait?timeout=x", api.Wait{Endpoint: "shop/web"})
	require.ErrorContains(t, err, "timeout")
	r.end(t)

	r, _ = startLate(t, node, dir, state)
	_, err = api.Send[struct{}](t.Context(), r.Client, http.MethodPost, "/v1/wait?timeout=10ms", api.Wait{Endpoint: "shop/web"})
	require.ErrorContains(t, err, "late has not been read to its end")
	r.end(t)
}

// Whoever waits for an endpoint while other settings start the pipeline anew goes on waiting, for what the next one programs; and
// so does whoever waits for one to go.
func TestWaitingOutlastsThePipeline(t *testing.T) {
	node, dir, state, file := nstest.New(t), t.TempDir(), t.TempDir(), make(chan []settings.Layer)
	var base settings.Layer
	reread := func(cfg *daemon.Config) { base, cfg.Reread = cfg.Below[0], file }
	nstest.NewWorkload(t, node, "way0", "10.0.0.9")
	nstest.NewWorkload(t, node, "way1", "10.0.0.8")
	r := start(t, node, dir, state, reread)
	r.until(t, well)
	require.NoError(t, r.put(t, "timeout=20s", `{"namespace":"shop","name":"old","interface":"way0","addresses":["10.0.0.9"]}`))
	r.end(t)

	r, source := startLate(t, node, dir, state, reread)
	put, gone, waited := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		put <- r.put(t, "timeout=20s", `{"namespace":"shop","name":"new","interface":"way1","addresses":["10.0.0.8"]}`)
	}()
	go func() {
		_, err := r.forget(t, "name=old&timeout=20s")
		gone <- err
	}()
	registered := func(name string) bool {
		return get[api.Registered](t, r, "/v1/registry?namespace=shop&name="+name).Endpoint != nil
	}
	require.Eventually(t, func() bool { return registered("new") && !registered("old") }, patience, time.Millisecond)
	go func() {
		_, err := api.Send[struct{}](t.Context(), r.Client, http.MethodPost, "/v1/wait?timeout=20s", api.Wait{Endpoint: "shop/new"})
		waited <- err
	}()
	layer := settings.Layer{Source: "file", Values: maps.Clone(base.Values)}
	layer.Values["apply-burst"] = "7"
	file <- []settings.Layer{layer}
	require.Eventually(t, func() bool { return get[api.Status](t, r, "/v1/status").Restarts == 1 }, patience, time.Millisecond)
	require.Empty(t, put)
	require.Empty(t, gone)
	require.Empty(t, waited)
	close(source)
	require.NoError(t, <-put)
	require.NoError(t, <-gone)
	require.NoError(t, <-waited)
	table := get[api.Ruleset](t, r, "/v1/ruleset").Table
	require.Contains(t, table, `"way1"`)
	require.NotContains(t, table, `"way0"`)
	r.end(t)
}
