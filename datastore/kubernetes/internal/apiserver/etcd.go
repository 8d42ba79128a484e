// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
)

// Snapshot is a copy of all objects of a Server.
type Snapshot struct{ folder string }

// KillEtcd ends etcd with SIGKILL. The API server continues: it serves watches and what it has
// cached, and no changes.
func (s *Server) KillEtcd() { s.etcd.kill() }

// RestartEtcd starts etcd again, with its data and at the same address. It kills one that runs. If
// the API server runs, RestartEtcd returns when that is ready. The API server has a connection for
// each kind, so requests for some kinds may fail a little longer.
func (s *Server) RestartEtcd() {
	s.t.Helper()
	s.etcd.kill()
	s.etcd.start(s.t)
	if s.api.running() {
		s.awaitReady()
	}
}

// Compact removes from etcd all revisions before the current one. A list or watch that the API
// server reads from etcd at an older revision then fails with the reason Expired. The API server
// also has a cache of recent revisions until it starts again.
func (s *Server) Compact() {
	s.t.Helper()
	var current struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	s.callEtcd("/v3/kv/range", map[string]any{"key": []byte{0}, "count_only": true}, &current)
	s.callEtcd("/v3/kv/compaction", map[string]any{"revision": current.Header.Revision, "physical": true}, nil)
}

// callEtcd sends a request to the JSON gateway of etcd.
func (s *Server) callEtcd(path string, request, response any) {
	s.t.Helper()
	body, err := json.Marshal(request)
	require.NoError(s.t, err)
	call, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.etcdURL+path, bytes.NewReader(body))
	require.NoError(s.t, err)
	call.Close = true // no connection remains
	answer, err := http.DefaultClient.Do(call)
	require.NoError(s.t, err)
	defer answer.Body.Close()
	require.Equal(s.t, http.StatusOK, answer.StatusCode, path)
	if response != nil {
		require.NoError(s.t, json.NewDecoder(answer.Body).Decode(response))
	}
}

// Snapshot copies all objects. Both programs start again for it.
func (s *Server) Snapshot() Snapshot {
	s.t.Helper()
	snapshot := Snapshot{folder: filepath.Join(s.t.TempDir(), "etcd")}
	s.whileStopped(func() error { return os.CopyFS(snapshot.folder, os.DirFS(s.data)) })
	return snapshot
}

// Restore puts back the objects of a Snapshot, with their revisions, as an administrator does with
// a backup. Both programs start again for it. A later change gets a revision that another change
// may have had before.
func (s *Server) Restore(snapshot Snapshot) {
	s.t.Helper()
	s.whileStopped(func() error {
		if err := os.RemoveAll(s.data); err != nil {
			return err
		}
		return os.CopyFS(s.data, os.DirFS(snapshot.folder))
	})
}

// whileStopped calls a function while no program runs.
func (s *Server) whileStopped(change func() error) {
	s.t.Helper()
	s.api.kill()
	s.etcd.kill()
	require.NoError(s.t, change())
	s.etcd.start(s.t)
	s.Restart()
}
