// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/server"
)

// pipes is a listener of connections in memory, whose deadlines use the clock of the test.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// send connects, sends a text, and returns the connection.
func (p *pipes) send(text string) net.Conn {
	mine, theirs := net.Pipe()
	p.conns <- theirs
	go func() { _, _ = io.WriteString(mine, text) }() // the server need not read all of it
	return mine
}

// Headers and bodies have limits of time and size. The time limit of the body does not end a
// handler that runs for long.
func TestLimitsOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() {
			stopped <- server.Run(ctx,
				server.Config{Listener: l, MaxConns: 10, MaxBody: 4, Handler: http.HandlerFunc(func(
					w http.ResponseWriter, r *http.Request,
				) {
					if r.URL.Path == "/wait" {
						select {
						case <-time.After(time.Hour):
						case <-r.Context().Done():
							return
						}
					}
					ok(w, r)
				})})
		}()
		const post = "POST /wait HTTP/1.1\r\nHost: agent\r\nContent-Length: "
		for text, want := range map[string]time.Duration{
			"":                           5 * time.Second,
			"GET / HTTP/1.1\r\nHost: ":   5 * time.Second,
			post + "4\r\n\r\nnul":        30 * time.Second,
			get:                          time.Minute, // between two requests
			get + "GET / HTTP/1.1\r\nH:": 5 * time.Second,
		} {
			begun := time.Now()
			_, err := io.Copy(io.Discard, l.send(text))
			require.NoError(t, err)
			require.Equal(t, want, time.Since(begun), "%q", text)
		}
		for text, want := range map[string]string{
			post + "4\r\n\r\nnull":  "200 oknull",
			post + "5\r\n\r\nnulls": "413 http: request body too large\n",
			strings.Replace(get, "\r\n\r\n", "\r\nX: "+strings.Repeat("x", 32<<10)+"\r\n\r\n",
				1): "431 431 Request Header Fields Too Large",
		} {
			c := l.send(text)
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Equal(t, want, response.Status[:4]+string(body))
			require.NoError(t, c.Close())
		}
		cancel()
		require.ErrorIs(t, <-stopped, context.Canceled)
		time.Sleep(time.Minute) // on the test's clock: connections linger after a refusal
	})
}

// unread is a connection that the server cannot read from before release is closed.
type unread struct {
	net.Conn
	release chan struct{}
}

// RemoteAddr blocks until release is closed. The server calls it before it reads.
func (u unread) RemoteAddr() net.Addr {
	<-u.release
	return u.Conn.RemoteAddr()
}

// The limit does not close a connection from which the server has not read, however old it is: its
// request may have arrived already. A further connection waits.
func TestUnreadConnectionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() {
			stopped <- server.Run(ctx, server.Config{
				Listener: l, MaxConns: 1, Handler: http.HandlerFunc(ok),
				EndRequestsAfter: time.Hour, // so the second connection waits
			})
		}()
		first, theirs := net.Pipe()
		release := make(chan struct{})
		l.conns <- unread{theirs, release}
		final := strings.Replace(get, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
		go func() { _, _ = io.WriteString(first, final) }()
		second := l.send(final)
		time.Sleep(time.Minute) // on the test's clock
		close(release)
		for _, c := range []net.Conn{first, second} {
			status, _ := answer(t, c)
			require.Equal(t, 200, status)
			require.NoError(t, c.Close())
		}
		cancel()
		require.ErrorIs(t, <-stopped, context.Canceled)
	})
}

// A connection that its client closes makes room at once, even if the server may not close it yet.
func TestClosedConnectionMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() {
			stopped <- server.Run(ctx, server.Config{
				Listener: l, MaxConns: 1, Handler: http.HandlerFunc(ok), EvictAfter: time.Hour,
			})
		}()
		first, second := l.send(""), l.send(get)
		synctest.Wait()
		begun := time.Now()
		require.NoError(t, first.Close())
		status, _ := answer(t, second)
		require.Equal(t, 200, status)
		require.Zero(t, time.Since(begun), "on the test's clock")
		require.NoError(t, second.Close())
		cancel()
		require.ErrorIs(t, <-stopped, context.Canceled)
	})
}

// The first bytes of a request restart the idle time of the connection, also if the limit is
// reached. Later bytes do not.
func TestFirstBytesRestartIdleTime(t *testing.T) {
	for rest, want := range map[time.Duration]bool{90 * time.Millisecond: true, 110 * time.Millisecond: false} {
		synctest.Test(t, func(t *testing.T) {
			l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
			ctx, cancel := context.WithCancel(t.Context())
			stopped := make(chan error, 1)
			go func() {
				stopped <- server.Run(ctx, server.Config{
					Listener: l, MaxConns: 1, Handler: http.HandlerFunc(ok),
					EndRequestsAfter: time.Hour, // so the second connection waits
				})
			}()
			final := strings.Replace(get, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
			first, theirs := net.Pipe()
			l.conns <- theirs
			var sending sync.WaitGroup
			defer sending.Wait()
			sending.Go(func() {
				time.Sleep(90 * time.Millisecond) // on the test's clock
				_, _ = io.WriteString(first, final[:5])
				time.Sleep(rest / 2)
				_, _ = io.WriteString(first, final[5:9])
				time.Sleep(rest / 2)
				_, _ = io.WriteString(first, final[9:])
			})
			second := l.send(final)
			response, err := http.ReadResponse(bufio.NewReader(first), nil)
			require.Equal(t, want, err == nil, "%v", err)
			if err == nil {
				require.Equal(t, 200, response.StatusCode)
			}
			require.NoError(t, first.Close())
			status, _ := answer(t, second)
			require.Equal(t, 200, status)
			require.NoError(t, second.Close())
			cancel()
			require.ErrorIs(t, <-stopped, context.Canceled)
		})
	}
}
