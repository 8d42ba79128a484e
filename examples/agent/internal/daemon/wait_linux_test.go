// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/examples/agent/internal/daemon"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// fileChanges reports files that are added to a directory or removed from it.
type fileChanges struct{ *os.File }

func watchFiles(t *testing.T, dir string) fileChanges {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	require.NoError(t, err)
	f := fileChanges{os.NewFile(uintptr(fd), "inotify")}
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO|unix.IN_DELETE)
	require.NoError(t, err)
	return f
}

// until waits until holds reports true, and calls it again after each change of the directory.
func (f fileChanges) until(t *testing.T, holds func() bool) {
	t.Helper()
	require.NoError(t, f.SetReadDeadline(time.Now().Add(waitTimeout)))
	for events := make([]byte, 4096); !holds(); {
		_, err := f.Read(events)
		require.NoError(t, err)
	}
}

// A wait that times out returns the reason.
func TestWaitReturnsReasonAfterTimeout(t *testing.T) {
	node, dir := shop(t)
	write(t, dir, "more.yaml",
		pod("late", "10.0.0.3")+strings.ReplaceAll(pod("away", "10.0.0.4"), "nodeName: n", "nodeName: another"))
	state := t.TempDir()
	r := start(t, node, dir, state)
	r.until(t, func(pipeline.State) bool { return strings.Contains(r.stateOf(t, "late"), "no such interface") })
	for endpoint, want := range map[string]string{
		"shop/nobody": "shop/nobody is not programmed after 10ms: no source has such an endpoint",
		"shop/away":   "shop/away: pipeline: the endpoint is another node's",
		"shop/late":   "no such interface",
	} {
		_, err := api.Send[struct{}](t.Context(), r.Client, http.MethodPost, "/v1/wait?timeout=10ms",
			api.Wait{Endpoint: endpoint})
		require.ErrorContains(t, err, want)
	}
	_, err := api.Send[struct{}](t.Context(), r.Client, http.MethodPost, "/v1/wait?timeout=x",
		api.Wait{Endpoint: "shop/web"})
	require.ErrorContains(t, err, "timeout")
	r.end(t)

	r, _ = startLate(t, node, dir, state)
	_, err = api.Send[struct{}](t.Context(), r.Client, http.MethodPost, "/v1/wait?timeout=10ms",
		api.Wait{Endpoint: "shop/web"})
	require.ErrorContains(t, err, "not read completely: late")
	r.end(t)
}

// A wait for an endpoint, or for its removal, continues with the next pipeline if settings restart
// the pipeline.
func TestWaitContinuesWithNextPipeline(t *testing.T) {
	node, dir, state, file := nstest.New(t), t.TempDir(), t.TempDir(), make(chan []settings.Layer)
	var base settings.Layer
	reread := func(cfg *daemon.Config) { base, cfg.Reread = cfg.Below[0], file }
	nstest.NewWorkload(t, node, "way0", "10.0.0.9")
	nstest.NewWorkload(t, node, "way1", "10.0.0.8")
	r := start(t, node, dir, state, reread)
	r.until(t, well)
	require.NoError(t,
		r.put(t, "timeout=20s", `{"namespace":"shop","name":"old","interface":"way0","addresses":["10.0.0.9"]}`))
	r.end(t)

	r, source := startLate(t, node, dir, state, reread)
	changes := watchFiles(t, filepath.Join(state, "endpoints"))
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
	changes.until(t, func() bool { return !registered("old") })
	require.False(t, registered("new"), "another endpoint may have its interface")
	go func() {
		_, err := api.Send[struct{}](t.Context(), r.Client, http.MethodPost, "/v1/wait?timeout=20s",
			api.Wait{Endpoint: "shop/new"})
		waited <- err
	}()
	layer := settings.Layer{Source: "file", Values: maps.Clone(base.Values)}
	layer.Values["apply-burst"] = "7"
	file <- []settings.Layer{layer}
	r.log.await(t, "settings have changed: restarting")
	require.EqualValues(t, 1, get[api.Status](t, r, "/v1/status").Restarts)
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
