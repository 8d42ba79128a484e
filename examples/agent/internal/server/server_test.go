// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/server"
)

const waitTimeout = 20 * time.Second

// log has the text that was logged.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running is a running server on a socket of the test.
type running struct {
	path string
	log  *log
	stop func() error
}

func run(t *testing.T, cfg server.Config) *running {
	t.Helper()
	r := &running{path: filepath.Join(t.TempDir(), "s"), log: &log{}}
	l, err := net.Listen("unix", r.path)
	require.NoError(t, err)
	if cfg.Listener != nil { // the listener of the test takes precedence
		cfg.Listener.(*failing).Listener = l
	} else {
		cfg.Listener = l
	}
	cfg.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, cfg) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { require.ErrorIs(t, r.stop(), context.Canceled) })
	return r
}

// dial connects and sends a text. It ignores a failed write, because the server may close the
// connection at once.
func (r *running) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", r.path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(waitTimeout)))
	if _, err = io.WriteString(c, text); !errors.Is(err, syscall.EPIPE) {
		require.NoError(t, err)
	}
	return c
}

// answer reads the status and the body of an answer.
func answer(t *testing.T, c net.Conn) (int, string) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// ended waits until the server has closed a connection.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, c)
	var timeout net.Error
	require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "still open")
}

const get = "GET / HTTP/1.1\r\nHost: agent\r\n\r\n"

func ok(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	_, _ = w.Write(append([]byte("ok"), data...))
}

// A new connection replaces the connection that has been idle longest. A connection is also idle
// while its client has sent a part of a header, a part of a body, or nothing. A connection with a
// running request stays.
func TestNewConnectionReplacesIdleOne(t *testing.T) {
	const limit, many = 8, 300
	begun, release := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", ok)
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-release
		ok(w, r)
	})
	var closed atomic.Int64
	r := run(t, server.Config{Handler: mux, MaxConns: limit, MaxBody: 100, Closed: func() { closed.Add(1) }})
	slow := r.dial(t, strings.Replace(get, "/", "/slow", 1))
	<-begun
	var conns []net.Conn
	for i := range many {
		switch i % 4 {
		case 0: // a keep-alive connection
			c := r.dial(t, get)
			status, _ := answer(t, c)
			require.Equal(t, 200, status)
			conns = append(conns, c)
		case 1:
			conns = append(conns, r.dial(t, "GET / HTTP/1.1\r\nHost: "))
		case 2:
			conns = append(conns, r.dial(t, "GET / HTTP/1.1\r\nHost: agent\r\nContent-Length: 9\r\n\r\nx"))
		default:
			conns = append(conns, r.dial(t, ""))
		}
	}
	status, body := answer(t, r.dial(t, get))
	require.Equal(t, 200, status)
	require.Equal(t, "ok", body)
	for _, c := range conns[:many-limit+2] { // the slow request and the last one stay open, too
		ended(t, c)
	}
	close(release)
	status, _ = answer(t, slow)
	require.Equal(t, 200, status)
	require.Contains(t, r.log.String(), "connection limit reached")
	require.Equal(t, 1, strings.Count(r.log.String(), "\n"), "a flood does not fill the log")
	require.EqualValues(t, many+2-limit, closed.Load(), "all closed connections are counted")
	t.Logf("%d connections, limit %d", many, limit)
}

// If all connections have a request, a new connection ends the longest one or is closed, depending
// on the configuration.
func TestAllConnectionsBusy(t *testing.T) {
	for _, end := range []time.Duration{0, time.Millisecond} {
		begun, release := make(chan struct{}, 2), make(chan struct{})
		r := run(t, server.Config{MaxConns: 1, EndRequestsAfter: end, Handler: http.HandlerFunc(func(
			w http.ResponseWriter, req *http.Request,
		) {
			begun <- struct{}{}
			select {
			case <-release:
			case <-req.Context().Done():
			}
			ok(w, req)
		})})
		first := r.dial(t, get)
		<-begun
		second := r.dial(t, get)
		stays, goes := first, second
		if end > 0 {
			stays, goes = second, first
			select {
			case <-begun:
			case <-time.After(waitTimeout):
				require.Fail(t, "the new request does not begin")
			}
		}
		ended(t, goes)
		close(release)
		status, _ := answer(t, stays)
		require.Equal(t, 200, status)
	}
}

// The context of a waiting handler ends when its client disconnects, even if the handler does not
// read the body that the client sent. If the client is connected but does not read, the handler's
// write fails.
func TestHandlerNoticesThatTheClientLeaves(t *testing.T) {
	begun, noticed := make(chan struct{}), make(chan struct{})
	r := run(t, server.Config{MaxConns: 10, MaxBody: 100, Handler: http.HandlerFunc(func(
		w http.ResponseWriter, r *http.Request,
	) {
		begun <- struct{}{}
		<-r.Context().Done()
		noticed <- struct{}{}
	})})
	for _, text := range []string{
		get, "GET / HTTP/1.1\r\nHost: agent\r\nConnection: close\r\nContent-Length: 4\r\n\r\nnull",
	} {
		c := r.dial(t, text)
		<-begun
		require.NoError(t, c.Close())
		<-noticed
	}

	writes := make(chan error, 1)
	r = run(t, server.Config{MaxConns: 10, WriteTimeout: 50 * time.Millisecond, Handler: http.HandlerFunc(func(
		w http.ResponseWriter, r *http.Request,
	) {
		for part := make([]byte, 1<<20); ; {
			if _, err := w.Write(part); err != nil {
				writes <- err
				return
			}
		}
	})})
	r.dial(t, get)
	require.Error(t, <-writes)
}

// failing is a listener that fails a few times.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, err
	}
	return f.Listener.Accept()
}

// After an error of Accept, the server calls Accept again, even if the error is fatal for
// http.Server. The log has the reason.
func TestAcceptFails(t *testing.T) {
	l := &failing{errs: []error{syscall.EMFILE, syscall.ENOBUFS}}
	r := run(t, server.Config{Listener: l, MaxConns: 1, Handler: http.HandlerFunc(ok)})
	status, _ := answer(t, r.dial(t, get))
	require.Equal(t, 200, status)
	for _, cause := range []error{syscall.EMFILE, syscall.ENOBUFS} {
		require.Regexp(t, `level=WARN msg="http: Accept error: `+cause.Error(), r.log.String())
	}
}

func TestRunRefuses(t *testing.T) {
	require.ErrorContains(t, server.Run(t.Context(), server.Config{}),
		"server: Config.Listener, Handler and MaxConns: required")
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorIs(t, server.Run(t.Context(), server.Config{Listener: l, MaxConns: 1, Handler: http.HandlerFunc(ok)}),
		net.ErrClosed)
}
