// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Config configures a server.
type Config struct {
	// Listener accepts the connections. Run closes it. Required.
	Listener net.Listener
	// Handler handles the requests. Required.
	Handler http.Handler
	// MaxConns is the maximum number of open connections. At this limit, a new connection waits
	// until another one ends, or until the server is allowed to close one: see EvictAfter and
	// EndRequestsAfter. Required.
	MaxConns int
	// EvictAfter is the idle time after which the server may close a connection in favour of a new
	// one. A connection is idle while no handler serves it. The time begins again when the client
	// sends data for the first time. Default: 100 ms.
	EvictAfter time.Duration
	// EndRequestsAfter is how long a handler must have served a request before the server may close
	// its connection in favour of a new one. The server does so only if there is no idle connection
	// that it may close instead. Default: 0, which means never. With 0, the server closes a new
	// connection at once if handlers are serving all MaxConns connections.
	EndRequestsAfter time.Duration
	// MaxBody is the maximum size of a request's body in bytes. Default: 0, no request may have a
	// body.
	MaxBody int64
	// Closed is called for each connection that the server closes because of MaxConns. It must not
	// block. Optional.
	Closed func()
	// HeaderTimeout limits the time to receive a request's header, BodyTimeout the time to receive
	// header and body. IdleTimeout limits the time between two requests. Default: 5 s, 30 s and 60
	// s.
	HeaderTimeout, BodyTimeout, IdleTimeout time.Duration
	// WriteTimeout limits the time of each write of a handler. Default: 10 s.
	WriteTimeout time.Duration
	// ConnContext is http.Server.ConnContext. Optional.
	ConnContext func(context.Context, net.Conn) context.Context
	// Logger receives errors of the listener and of connections. Default: none.
	Logger *slog.Logger
}

// maxHeader is the maximum size of a request's header in bytes.
const maxHeader = 16 << 10

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.EvictAfter, 100*time.Millisecond)
	set(&c.HeaderTimeout, 5*time.Second)
	set(&c.BodyTimeout, 30*time.Second)
	set(&c.IdleTimeout, time.Minute)
	set(&c.WriteTimeout, 10*time.Second)
	if c.ConnContext == nil {
		c.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return ctx }
	}
	if c.Closed == nil {
		c.Closed = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if c.Listener == nil || c.Handler == nil || c.MaxConns < 1 {
		return errors.New("server: Config.Listener, Handler and MaxConns: required")
	}
	return nil
}

// Run serves requests until ctx is done, and then closes all connections. It does not wait for
// handlers.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	conns := newConns(cfg)
	s := &http.Server{
		Handler:           &handler{cfg: cfg, conns: conns},
		ReadHeaderTimeout: cfg.HeaderTimeout, ReadTimeout: cfg.BodyTimeout, IdleTimeout: cfg.IdleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			accepted := c.(*conn)
			return conns.add(cfg.ConnContext(ctx, accepted.Conn), accepted)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				conns.remove(c.(*conn))
			}
		},
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.Close()
		close(closed)
	})
	err := s.Serve(listener{Listener: cfg.Listener, conns: conns})
	if !stop() {
		<-closed
		return ctx.Err()
	}
	return errors.Join(err, s.Close())
}

// listener makes http.Server log an error of Accept and try again a little later. Only the error of
// a closed listener ends the server.
type listener struct {
	net.Listener
	conns *conns
}

// Accept returns the next connection, a *conn.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		if !errors.Is(err, net.ErrClosed) {
			err = temporary{err}
		}
		return nil, err
	}
	return &conn{Conn: c, owner: l.conns}, nil
}

// temporary is an error that http.Server treats as temporary. It is a net.Error.
type temporary struct{ error }

// Timeout reports false.
func (temporary) Timeout() bool { return false }

// Temporary reports true.
func (temporary) Temporary() bool { return true }

// Unwrap returns the cause.
func (t temporary) Unwrap() error { return t.error }

// handler reads the body of a request before it calls the handler of the Config, and limits the
// time of writes.
type handler struct {
	cfg   Config
	conns *conns
}

// ServeHTTP serves one request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := &writer{ResponseWriter: w, control: http.NewResponseController(w), timeout: h.cfg.WriteTimeout}
	defer out.extend() // the rest of the buffer is written after this
	// http.Server notices that the client has disconnected only after the body was read completely.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.cfg.MaxBody))
	if err != nil {
		status := http.StatusBadRequest
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(out, err.Error(), status)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	_ = out.control.SetReadDeadline(time.Time{}) // otherwise the deadline of the body ends the request
	h.conns.begin(r.Context())
	defer h.conns.end(r.Context())
	h.cfg.Handler.ServeHTTP(out, r)
}

// writer limits the time of each write. If a client does not read, its request ends.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

func (w *writer) extend() { _ = w.control.SetWriteDeadline(time.Now().Add(w.timeout)) }

// Write writes a part of the answer.
func (w *writer) Write(p []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(p)
}

// FlushError sends the buffer. http.ResponseController calls it.
func (w *writer) FlushError() error {
	w.extend()
	return w.control.Flush()
}

// Unwrap returns the wrapped writer. http.ResponseController calls it.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
