// SPDX-License-Identifier: Apache-2.0

package policysync_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/policy"
)

// connect opens a connection that the test closes.
func connect(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(waitTimeout)))
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// The number of peers that are checked at a time is limited for all endpoints together.
func TestChecksAreLimited(t *testing.T) {
	const most, peers = 8, 20
	var running, peak atomic.Int32
	proceed, done := make(chan struct{}), make(chan struct{})
	server, path := serve(t, policysync.ServerConfig{Authenticate: func(policy.Key, policysync.Peer) error {
		n := running.Add(1)
		defer running.Add(-1)
		for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
		}
		select {
		case <-proceed:
		case <-done:
		}
		return errors.New("refused")
	}})
	t.Cleanup(func() { close(done) })
	state := world(1, "a", "b")
	require.NoError(t, server.Apply(t.Context(), dptest.Transition(dptest.NewState(), state)))
	var conns []net.Conn
	for i := range peers {
		conns = append(conns, connect(t, path(key([]string{"a", "b"}[i%2]))))
	}
	require.Eventually(t, func() bool { return running.Load() == most }, waitTimeout, time.Millisecond)
	for range peers {
		proceed <- struct{}{}
	}
	for _, conn := range conns {
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
	require.Equal(t, int32(most), peak.Load())
}

// lines counts the log lines with a text.
type lines struct {
	slog.Handler
	text  string
	count *atomic.Int32
}

// Handle counts a line.
func (l lines) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, l.text) {
		l.count.Add(1)
	}
	return nil
}

// Repeated refusals of a peer do not fill the log.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	var count atomic.Int32
	path := policysync.Folder(t.TempDir())
	server, err := policysync.NewServer(policysync.ServerConfig{
		Socket:       path,
		Logger:       slog.New(lines{slog.NewTextHandler(io.Discard, nil), "peer refused", &count}),
		Authenticate: func(policy.Key, policysync.Peer) error { return errors.New("refused") },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	require.NoError(t, server.Apply(t.Context(), dptest.Transition(dptest.NewState(), world(1, "a"))))
	const peers = 50
	for range peers {
		_, err := connect(t, path(key("a"))).Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
	require.Positive(t, count.Load())
	require.Less(t, count.Load(), int32(peers))
}
