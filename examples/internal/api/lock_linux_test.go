// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While an agent holds the lock of its socket, no other agent can use the socket, even if the file
// of the socket was removed.
func TestSecondAgentIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "agent.sock")
	listener, lock, err := Listen(t.Context(), path)
	require.NoError(t, err)
	refused := func() {
		t.Helper()
		_, _, err := Listen(t.Context(), path)
		require.ErrorIs(t, err, ErrRunning)
		require.ErrorContains(t, err, path+": an agent is running there already")
		_, err = Lock(path)
		require.ErrorIs(t, err, ErrRunning)
	}
	refused()
	require.NoError(t, listener.Close()) // removes the file
	require.NoFileExists(t, path)
	refused()
	require.NoError(t, lock.Close())
	listener, lock, err = Listen(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, errors.Join(listener.Close(), lock.Close()))
}

// A socket with a full backlog is in use, even if its owner does not hold the lock.
func TestFullBacklogIsAnAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	neverAccept(t, path)
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, _, err = Listen(t.Context(), path)
	require.ErrorIs(t, err, ErrRunning)
	_, err = os.Lstat(path)
	require.NoError(t, err, "the socket stays")
}

// Commands share the lock, and an agent waits until they have released it.
func TestAgentWaitsForCommands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	one, err := Lock(path)
	require.NoError(t, err)
	two, err := Lock(path)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*lockRetry)
	defer cancel()
	_, _, err = Listen(ctx, path)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, one.Close())

	time.AfterFunc(3*lockRetry, func() { _ = two.Close() })
	listener, lock, err := Listen(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, errors.Join(listener.Close(), lock.Close()))
	_, err = Lock(filepath.Join("/proc/self", "agent.sock"))
	require.Error(t, err, "the lock file cannot be created")
}
