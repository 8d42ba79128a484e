// SPDX-License-Identifier: Apache-2.0

package policysync_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/policy"
)

// A Server keeps the contract of dataplanes, and the verdicts of its clients are those of policy.
func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		w := &workloads{
			folder: filepath.Join(t.TempDir(), "sync"), states: map[string]*policysync.State{},
			current: map[string]bool{},
		}
		require.NoError(t, os.Mkdir(w.folder, 0o755))
		return conformance.Harness{
			Open: w.open, Dump: w.dump, Damage: w.damage, Fault: w.fault, Foreign: w.foreign, Worlds: 5,
			Judge: func(p dptest.Packet) (bool, error) { return w.judge(t, p) },
			Spoil: func(s dptest.State) policy.Key {
				long := key(strings.Repeat("x", 256)) // not a valid file name
				s.Endpoints[long] = &dataplane.Endpoint{Interface: "wl9"}
				return long
			},
		}
	})
}

// workloads are the clients of a folder. Each keeps the state of its socket, also while no server
// listens on the socket.
type workloads struct {
	folder string
	server *policysync.Server
	states map[string]*policysync.State
	// current is cleared by each change, so that the states are read again.
	current map[string]bool
}

// changing is a Server that clears workloads.current with each change.
type changing struct {
	*policysync.Server
	w *workloads
}

// Apply applies a batch.
func (c changing) Apply(ctx context.Context, b dataplane.Batch) error {
	c.w.current = map[string]bool{}
	return c.Server.Apply(ctx, b)
}

// Resync repairs the sockets.
func (c changing) Resync(ctx context.Context) error {
	c.w.current = map[string]bool{}
	return c.Server.Resync(ctx)
}

// open returns a server. The former server ends as if it were killed: its sockets stay, and no
// process listens on them.
func (w *workloads) open(t *testing.T) dataplane.Dataplane {
	if w.server != nil {
		aside := filepath.Join(t.TempDir(), "sync")
		require.NoError(t, os.Rename(w.folder, aside))
		require.NoError(t, w.server.Close())
		require.NoError(t, os.Rename(aside, w.folder))
	}
	var err error
	w.server, err = policysync.NewServer(policysync.ServerConfig{Folder: w.folder, Authenticate: anyone})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.server.Close()) })
	return changing{w.server, w}
}

// sockets lists the sockets.
func (w *workloads) sockets(t *testing.T) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(w.folder, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type() == fs.ModeSocket {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

// state returns the state of the client of a socket.
func (w *workloads) state(t *testing.T, path string) *policysync.State {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return w.states[path] // the server has ended
	}
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	if !w.current[path] {
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		w.states[path] = nil
		_ = policysync.Watch(ctx, path, func(s *policysync.State) {
			w.states[path] = s
			cancel()
		})
		require.NotNil(t, w.states[path], path)
		w.current[path] = true
	}
	return w.states[path]
}

// dump lists the sockets, and the states of their clients.
func (w *workloads) dump(t *testing.T) string {
	var b strings.Builder
	for _, path := range w.sockets(t) {
		name, err := filepath.Rel(w.folder, path)
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s:\n%s\n", name, w.state(t, path).Objects)
	}
	return b.String()
}

// damage removes a socket.
func (w *workloads) damage(t *testing.T) { require.NoError(t, os.Remove(w.sockets(t)[0])) }

// fault replaces the folder by a file.
func (w *workloads) fault(t *testing.T) (heal func()) {
	aside := filepath.Join(t.TempDir(), "sync")
	require.NoError(t, os.Rename(w.folder, aside))
	require.NoError(t, os.WriteFile(w.folder, nil, 0o600))
	return func() {
		require.NoError(t, os.Remove(w.folder))
		require.NoError(t, os.Rename(aside, w.folder))
	}
}

// foreign adds files that are not sockets.
func (w *workloads) foreign(t *testing.T) (check func()) {
	files := []string{filepath.Join(w.folder, "x.sock"), filepath.Join(w.folder, "n", "x.sock")}
	require.NoError(t, os.MkdirAll(filepath.Join(w.folder, "n"), 0o755))
	for _, file := range files {
		require.NoError(t, os.WriteFile(file, []byte("foreign"), 0o600))
	}
	return func() {
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, "foreign", string(text))
		}
	}
}

// judge reports whether the clients at both ends allow a packet.
func (w *workloads) judge(t *testing.T, p dptest.Packet) (allowed bool, err error) {
	path := policysync.Folder(w.folder)
	allowed = true
	if p.From != (policy.Key{}) {
		allowed = w.state(t, path(p.From)).Egress(p, 0).Action == policy.Allow
	}
	if p.To != (policy.Key{}) {
		allowed = w.state(t, path(p.To)).Ingress(p, 0).Action == policy.Allow && allowed
	}
	return allowed, nil
}
