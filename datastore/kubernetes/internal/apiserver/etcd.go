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

// KillEtcd ends etcd with SIGKILL. The API server continues to run: it keeps watches open and
// returns objects from its cache, but it cannot make changes.
func (s *Server) KillEtcd() { s.etcd.kill() }

// RestartEtcd starts etcd again, with its data and at the same address. If etcd still runs,
// RestartEtcd kills it first. If the API server runs, RestartEtcd waits until the API server is
// ready. Requests for some kinds may still fail for a short time, because the API server has one
// connection to etcd for each kind.
func (s *Server) RestartEtcd() {
	s.t.Helper()
	s.etcd.kill()
	s.etcd.start(s.t)
	if s.api.running() {
		s.awaitReady()
	}
}

// Compact removes all revisions before the current one from etcd. Afterwards, a list or a watch of
// an older revision fails with the reason Expired if the API server must read the revision from
// etcd. It may still succeed until the API server starts again, because the API server has recent
// revisions in a cache.
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

// Snapshot copies all objects. To do so, it restarts the API server and etcd.
func (s *Server) Snapshot() Snapshot {
	s.t.Helper()
	snapshot := Snapshot{folder: filepath.Join(s.t.TempDir(), "etcd")}
	s.whileStopped(func() error { return os.CopyFS(snapshot.folder, os.DirFS(s.data)) })
	return snapshot
}

// Restore restores the objects of a Snapshot, with their revisions, as an administrator restores a
// backup. To do so, it restarts the API server and etcd. Revisions then continue from the Snapshot:
// a later change may get a revision that another change had before Restore.
func (s *Server) Restore(snapshot Snapshot) {
	s.t.Helper()
	s.whileStopped(func() error {
		if err := os.RemoveAll(s.data); err != nil {
			return err
		}
		return os.CopyFS(s.data, os.DirFS(snapshot.folder))
	})
}

// whileStopped stops the API server and etcd, calls a function, and starts both again.
func (s *Server) whileStopped(change func() error) {
	s.t.Helper()
	s.api.kill()
	s.etcd.kill()
	require.NoError(s.t, change())
	s.etcd.start(s.t)
	s.Restart()
}
