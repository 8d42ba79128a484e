// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serve serves on a socket of the test, as if a given user ran the agent.
func serve(t *testing.T, uid uint32, handler http.HandlerFunc) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "deep", "agent.sock")
	listener, lock, err := Listen(t.Context(), path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	server := &http.Server{Handler: guard(handler, uid), ConnContext: WithPeer}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { require.NoError(t, errors.Join(server.Close(), lock.Close())) })
	return NewClient(path)
}

func TestRequestGetsResponse(t *testing.T) {
	c := serve(t, uint32(os.Geteuid()), func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			Answer(w, Wait{Endpoint: r.Method})
		case "/v1/cut": // the connection ends, as if the process ended
			Answer(w, Event{Text: "one"})
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/v1/watch":
			Answer(w, Event{Text: "one"})
			Answer(w, Event{Text: "two"})
		default:
			Fail(w, http.StatusNotFound, errors.New("no such thing"))
		}
	})
	answer, err := Get[Wait](t.Context(), c, "/ok")
	require.NoError(t, err)
	require.Equal(t, "GET", answer.Endpoint)
	_, err = Send[Wait](t.Context(), c, http.MethodPost, "/nowhere", Wait{})
	var failed *Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, &Error{Status: 404, Message: "no such thing"}, failed)
	var seen []string
	require.NoError(t, Stream(t.Context(), c, "/v1/watch", func(e Event) error {
		seen = append(seen, e.Text)
		return nil
	}))
	require.Equal(t, []string{"one", "two"}, seen)
	err = Stream(t.Context(), c, "/v1/cut", func(Event) error { return nil })
	require.ErrorIs(t, err, ErrEnded)
	require.NotContains(t, err.Error(), "EOF")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Stream[Event](ctx, c, "/v1/watch", nil), context.Canceled)
}

// Users other than root and the agent's user are refused, even if the mode of the socket allows
// everyone. A connection whose user is unknown is refused, too.
func TestOtherUsersAreRefused(t *testing.T) {
	reached := false
	inner := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true })
	for _, row := range []struct {
		uid     any
		allowed bool
	}{{uint32(0), true}, {uint32(1000), true}, {uint32(1001), false}, {nil, false}} {
		reached = false
		r, err := http.NewRequestWithContext(context.WithValue(t.Context(), peerKey{}, row.uid), http.MethodGet, "/",
			nil)
		require.NoError(t, err)
		w := &recorder{header: http.Header{}}
		guard(inner, 1000).ServeHTTP(w, r)
		require.Equal(t, row.allowed, reached)
		require.Equal(t, !row.allowed, w.status == http.StatusForbidden)
	}
	// The credentials come from the kernel: this process is accepted with its own user ID.
	left, right := net.Pipe()
	defer func() { require.NoError(t, errors.Join(left.Close(), right.Close())) }()
	require.Equal(t, t.Context(), WithPeer(t.Context(), left))
}

// recorder keeps only the status of a response.
type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

func TestNoAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	_, err := Get[Status](t.Context(), NewClient(path), "/v1/status")
	require.ErrorIs(t, err, ErrNoAgent)
	require.ErrorContains(t, err, path)

	// The socket of an earlier run is replaced. Another kind of file is not.
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, listener.Close())
	_, err = Get[Status](t.Context(), NewClient(path), "/v1/status")
	require.ErrorIs(t, err, ErrNoAgent)
	again, lock, err := Listen(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, errors.Join(again.Close(), lock.Close()))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, _, err = Listen(t.Context(), path)
	require.ErrorContains(t, err, "is not a socket")
}

// neverAccept listens on a socket and accepts no connection. The backlog has room for one.
func neverAccept(t *testing.T, path string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(fd)) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	require.NoError(t, syscall.Listen(fd, 0))
}

// A request has a timeout if the agent does not accept the connection or does not answer. For a
// stream, the timeout ends when the response begins.
func TestNoAnswer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	neverAccept(t, path)
	c := NewClient(path).WithTimeout(20 * time.Millisecond)
	_, err := Get[Status](t.Context(), c, "/v1/status")
	require.ErrorIs(t, err, ErrNoAnswer)
	require.ErrorContains(t, err, path+": no answer after 20ms")
	_, err = Get[Status](t.Context(), c, "/v1/status")
	require.ErrorIs(t, err, ErrNoAnswer)
	require.ErrorContains(t, err, "too many connections wait")

	received := make(chan struct{})
	c = serve(t, uint32(os.Geteuid()), func(w http.ResponseWriter, r *http.Request) {
		Answer(w, Event{})
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/v1/status" { // the rest of the response never arrives
			<-r.Context().Done()
		}
		<-received
	}).WithTimeout(time.Second)
	seen := 0
	require.NoError(t, Stream(t.Context(), c, "/v1/watch", func(Event) error {
		seen++
		close(received)
		return nil
	}))
	require.Equal(t, 1, seen)
	_, err = c.WithTimeout(20*time.Millisecond).Raw(t.Context(), "/v1/status")
	require.ErrorIs(t, err, ErrNoAnswer)
}
