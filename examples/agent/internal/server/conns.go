// SPDX-License-Identifier: Apache-2.0

package server

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
)

// logEvery is the minimum time between two log lines about the limit.
const logEvery = time.Minute

// conns has the open connections of a server, and limits their number. It is safe for concurrent
// use.
type conns struct {
	limit            int
	evictAfter       time.Duration
	endRequestsAfter time.Duration
	report           func() // Config.Closed
	logger           *slog.Logger
	changed          chan struct{} // holds a token after a connection ended or moved to another list

	mu     sync.Mutex
	open   map[*conn]struct{}
	idle   list.List // of *conn, the one that is idle longest first
	busy   list.List // of *conn, the one with the longest request first
	closed int       // by the limit since the last line in the log
	logged time.Time
}

// connKey is the key of a *conn in the context of a connection.
type connKey struct{}

func newConns(cfg Config) *conns {
	return &conns{
		limit: cfg.MaxConns, evictAfter: cfg.EvictAfter, endRequestsAfter: cfg.EndRequestsAfter, report: cfg.Closed,
		logger: cfg.Logger, changed: make(chan struct{}, 1), open: map[*conn]struct{}{},
	}
}

// add adds a new connection. If there are too many, it first waits until it may close another one,
// and closes that. It returns the context of the new connection.
func (s *conns) add(ctx context.Context, c *conn) context.Context {
	for {
		wait := s.tryAdd(c)
		if wait == 0 {
			return context.WithValue(ctx, connKey{}, c)
		}
		timer := time.NewTimer(wait)
		select {
		case <-s.changed:
		case <-timer.C:
		case <-ctx.Done():
			_ = c.Close() // the server ends
			return ctx
		}
		timer.Stop()
	}
}

// tryAdd adds a new connection, or returns the time after which it may be possible.
func (s *conns) tryAdd(c *conn) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= s.limit {
		if wait := s.closeOneLocked(c); wait > 0 {
			return wait
		}
	}
	s.open[c] = struct{}{}
	return 0
}

// closeOneLocked closes a connection in favour of a new one: the one that has been idle longest, or
// else the one with the longest request. If it may close none yet, it returns how long to wait. But
// if requests may not be ended and all connections have one, it closes the new connection.
func (s *conns) closeOneLocked(added *conn) (wait time.Duration) {
	victim, wait := s.victimLocked()
	switch {
	case victim != nil:
		s.removeLocked(victim)
	case s.endRequestsAfter == 0 && s.busy.Len() == len(s.open):
		victim = added // stays in s.open until the server calls remove
	default:
		return wait
	}
	_ = victim.Close() // ends its goroutine
	s.closed++
	s.report()
	if now := time.Now(); now.Sub(s.logged) >= logEvery {
		s.logger.Warn("connection limit reached: new connections wait until an idle one is closed",
			"limit", s.limit, "closed", s.closed)
		s.logged, s.closed = now, 0
	}
	return 0
}

// victimLocked returns the connection to close: the one that has been idle longest, or else the one
// with the longest request. If that has not lasted long enough, it returns nil and the time until a
// connection may be closed. A signal on s.changed can end that wait earlier.
func (s *conns) victimLocked() (victim *conn, wait time.Duration) {
	wait = time.Minute
	for _, kind := range []struct {
		conns *list.List
		after time.Duration
	}{{&s.idle, s.evictAfter}, {&s.busy, s.endRequestsAfter}} {
		first := kind.conns.Front()
		if first == nil || kind.after == 0 {
			continue
		}
		c := first.Value.(*conn)
		left := kind.after - time.Since(c.since)
		if left <= 0 {
			return c, 0
		}
		wait = min(wait, left)
	}
	return nil, wait
}

// remove removes a connection that has ended.
func (s *conns) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.open[c]; known {
		s.removeLocked(c)
	}
}

func (s *conns) removeLocked(c *conn) {
	c.unlistLocked()
	delete(s.open, c)
	s.notify()
}

// begin records that a handler works for the connection of a context.
func (s *conns) begin(ctx context.Context) { s.move(ctx, &s.busy) }

// end records that the handler has ended.
func (s *conns) end(ctx context.Context) { s.move(ctx, &s.idle) }

func (s *conns) move(ctx context.Context, to *list.List) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.moveLocked(c, to)
	}
}

// read records that the server reads from a connection. The first time the connection becomes idle.
func (s *conns) read(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.in == nil {
		s.moveLocked(c, &s.idle)
	}
}

// received records that a connection has received data. The first time, its idle time begins again,
// so that the client has time to send the rest of its request. Later calls have no effect.
// Therefore a client that sends slowly can be disconnected.
func (s *conns) received(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.sent && c.in == &s.idle {
		c.sent = true
		s.moveLocked(c, &s.idle)
	}
}

// moveLocked moves a connection that is open to the end of a list.
func (s *conns) moveLocked(c *conn, to *list.List) {
	if _, known := s.open[c]; !known {
		return
	}
	c.unlistLocked()
	c.in, c.element, c.since = to, to.PushBack(c), time.Now()
	s.notify()
}

// notify wakes up add.
func (s *conns) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// conn is an open connection. conns.mu guards its fields.
type conn struct {
	net.Conn
	owner *conns

	in      *list.List // nil before the server reads from the connection
	element *list.Element
	since   time.Time // when the connection joined the list
	sent    bool      // the client has sent something
}

// unlistLocked takes the connection out of its list.
func (c *conn) unlistLocked() {
	if c.in != nil {
		c.in.Remove(c.element)
	}
}

// Read reads from the connection. It records the first call, and the first data of the client.
func (c *conn) Read(p []byte) (int, error) {
	c.owner.read(c)
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.owner.received(c)
	}
	return n, err
}

// CloseWrite closes the write side, so that the client receives the whole response.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
