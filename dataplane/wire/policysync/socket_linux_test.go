// SPDX-License-Identifier: Apache-2.0

package policysync_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
)

// stale makes a socket on which no process listens.
func stale(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, live(t, path).Close())
	return path
}

// live returns a listener that does not delete its socket.
func live(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	listener.SetUnlinkOnClose(false)
	return listener
}

// The first complete state removes the sockets of a killed server, and nothing else.
func TestStaleSocketsAreRemoved(t *testing.T) {
	folder := t.TempDir()
	path := policysync.Folder(folder)
	old := []string{
		stale(t, path(key("a"))), stale(t, path(key("gone"))), stale(t, filepath.Join(folder, "%", "x.sock")),
		stale(t, filepath.Join(folder, "n", ".0123.sock")),
	}
	kept := []string{
		stale(t, filepath.Join(folder, "other.sock")), stale(t, filepath.Join(folder, "n", "other")),
		filepath.Join(folder, "n", "file.sock"), filepath.Join(folder, "link", "outside.sock"),
	}
	require.NoError(t, os.WriteFile(kept[2], nil, 0o600))
	outside := t.TempDir()
	stale(t, filepath.Join(outside, "outside.sock"))
	require.NoError(t, os.Symlink(outside, filepath.Join(folder, "link")))
	used := live(t, filepath.Join(folder, "n", "used.sock"))
	t.Cleanup(func() { require.NoError(t, used.Close()) })
	kept = append(kept, used.Addr().String())

	server, err := policysync.NewServer(policysync.ServerConfig{
		Folder: folder, Authenticate: anyone, Logger: logger(t),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	require.NoError(t, server.Apply(t.Context(), dataplane.Batch{}))
	for _, p := range append(old, kept...) {
		_, err := os.Lstat(p)
		require.NoError(t, err, "before the first complete state")
	}
	state := apply(t, server, dptest.NewState(), world(1, "a"))
	subscribe(t, old[0]).until(state)
	for _, p := range old[1:] {
		require.NoFileExists(t, p)
	}
	for _, p := range kept {
		_, err := os.Lstat(p)
		require.NoError(t, err)
	}
}

// A path may be longer than the address of a socket, and a file name up to the limit of the file
// system.
func TestLongPaths(t *testing.T) {
	folder := filepath.Join(t.TempDir(), strings.Repeat("f", 200))
	server, path := serve(t, policysync.ServerConfig{Socket: policysync.Folder(folder)})
	longest := strings.Repeat("x", 255-len(".sock"))
	state := apply(t, server, dptest.NewState(), world(1, "a", longest))
	for range 2 {
		for _, name := range []string{"a", longest} {
			watch(t, path(key(name))).until(t, closure(state, key(name)))
		}
		// Another server replaces its sockets only after it has ended.
		other, _ := serve(t, policysync.ServerConfig{Socket: path})
		require.ErrorContains(t, other.Apply(t.Context(), dptest.Transition(dptest.NewState(), state)),
			"another process listens on it")
		require.NoError(t, server.Close())
		require.NoError(t, other.Resync(t.Context()))
		server = other
	}
	require.NoError(t, server.Close())
	entries, err := os.ReadDir(filepath.Join(folder, "n"))
	require.NoError(t, err)
	require.Empty(t, entries)
}
