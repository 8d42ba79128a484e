// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/internal/frame"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// session is a client that is connected.
type session struct {
	server *Server
	conn   *frame.Conn
	plans  bool
	// calls are requests to write, in order.
	calls chan *call
	// ended is closed once the connection has ended and endErr, the reason, is set.
	ended  chan struct{}
	endErr error

	mu sync.Mutex
	// waiting are the calls without an answer, by the number of their request.
	waiting map[uint64]*call
	// lastMessage is the time of the last message from the client, in nanoseconds since 1970.
	lastMessage atomic.Int64
}

// call is a request and its answer.
type call struct {
	request request
	answer  answer
	done    chan struct{} // closed once answer is complete
}

// answer is the content of a client's answer.
type answer struct {
	objects         []*wirepb.ObjectStatus
	plan, planError string
}

func newCall(r request) *call { return &call{request: r, done: make(chan struct{})} }

// Serve accepts clients until ctx is done, and then closes the listener. If a client connects while
// another one is connected, Serve disconnects the earlier one.
//
// Errors: the error of ctx or of the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return ctx.Err()
		}
		if err != nil {
			_ = listener.Close()
			return fmt.Errorf("wire: %w", err)
		}
		clients.Go(func() { _ = s.ServeConn(ctx, conn) })
	}
}

// ServeConn serves one client until ctx is done, the client disconnects, or another client
// connects. Then it closes the connection.
//
// Errors: the error of ctx, or an error that says why the connection ended.
func (s *Server) ServeConn(ctx context.Context, conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	log := s.cfg.Logger.With("client", conn.RemoteAddr())
	err := s.cfg.Authenticate(conn)
	if err == nil {
		err = s.serve(ctx, conn)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	log.Warn("connection ended", "err", err)
	return fmt.Errorf("wire: %w", err)
}

// serve serves an authenticated client.
func (s *Server) serve(ctx context.Context, conn net.Conn) error {
	client := &session{
		server: s, conn: frame.New(conn, s.cfg.MaxMessage, s.cfg.Timeout), calls: make(chan *call),
		ended: make(chan struct{}), waiting: map[uint64]*call{},
	}
	if err := conn.SetReadDeadline(time.Now().Add(s.cfg.Timeout)); err != nil {
		return err
	}
	hello, err := client.handshake()
	if err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	client.plans = hello.GetPlans()
	client.lastMessage.Store(time.Now().UnixNano())

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first, replaced := s.setClient(client, hello)
	s.cfg.Logger.Info("client connected", "name", hello.GetName(), "requests", len(first))
	if replaced != nil {
		_ = replaced.conn.Close()
	}
	var reader sync.WaitGroup
	reader.Go(func() { cancel(client.read()) })
	s.report(dataplane.Drift{Backend: backend, Object: "client", OnlyFaults: true})
	err = client.write(ctx, first)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	_ = conn.Close()
	reader.Wait()
	s.removeClient(client, err)
	s.report(dataplane.Drift{Backend: backend, Object: "client", OnlyFaults: true})
	return err
}

// handshake exchanges the Hello messages.
func (c *session) handshake() (*wirepb.ClientHello, error) {
	m := &wirepb.ClientMessage{}
	if err := c.conn.Read(m); err != nil {
		return nil, err
	}
	hello := m.GetHello()
	if hello == nil {
		return nil, errors.New("the first message is not a ClientHello")
	}
	cfg := &c.server.cfg
	answer := &wirepb.ServerHello{
		Version: Version, Name: cfg.Name, Session: c.server.id, MaxMessageBytes: cfg.MaxMessage,
	}
	if hello.GetVersion() != Version {
		answer.Error = fmt.Sprintf("version %d of the protocol is not supported, want %d", hello.GetVersion(), Version)
	}
	err := c.conn.Write(&wirepb.ServerMessage{Message: &wirepb.ServerMessage_Hello{Hello: answer}})
	if err == nil && answer.GetError() != "" {
		err = errors.New(answer.GetError())
	}
	return hello, err
}

// setClient makes the session the client of the server. It returns the requests after which the
// client has the current state. It also returns the earlier client, if there is one.
func (s *Server) setClient(client *session, hello *wirepb.ClientHello) (first []*call, replaced *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	replaced, s.client = s.client, client
	generation := s.history.generation
	if bytes.Equal(hello.GetSession(), s.id) {
		if batches, ok := s.history.since(hello.GetGeneration()); ok {
			for i, b := range batches {
				first = append(first, newCall(batchRequest(hello.GetGeneration()+uint64(i)+1, false, b)))
			}
			return first, replaced
		}
	}
	return []*call{newCall(batchRequest(generation, true, s.desired.Snapshot()))}, replaced
}

// removeClient ends the calls of a session. The session is no longer the client of the server.
func (s *Server) removeClient(client *session, reason error) {
	s.mu.Lock()
	if s.client == client {
		s.client = nil
	}
	s.mu.Unlock()
	client.endErr = fmt.Errorf("%w: the connection ended: %w", ErrNotConnected, reason)
	close(client.ended)
}

// call sends a request and waits for its answer.
func (c *session) call(ctx context.Context, r request) (answer, error) {
	pending := newCall(r)
	select {
	case c.calls <- pending:
	case <-c.ended:
		return answer{}, c.endErr
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	select {
	case <-pending.done:
		return pending.answer, nil
	case <-c.ended:
		return answer{}, c.endErr
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// write writes requests and pings: first the given requests, then those of calls. It returns an
// error if the client sends no message within the timeout.
func (c *session) write(ctx context.Context, first []*call) error {
	number := uint64(0)
	send := func(pending *call) error {
		number++
		c.mu.Lock()
		c.waiting[number] = pending
		c.mu.Unlock()
		return pending.request(c.conn, number)
	}
	for _, pending := range first {
		if err := send(pending); err != nil {
			return err
		}
	}
	timeout := c.server.cfg.Timeout
	ticker := time.NewTicker(timeout / 3)
	defer ticker.Stop()
	for pings := uint64(1); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case pending := <-c.calls:
			if err := send(pending); err != nil {
				return err
			}
		case <-ticker.C:
			if silent := time.Since(time.Unix(0, c.lastMessage.Load())); silent > timeout {
				return fmt.Errorf("no message for %s", silent.Round(time.Second))
			}
			ping := &wirepb.ServerMessage_Ping{Ping: &wirepb.Ping{Number: pings}}
			if err := c.conn.Write(&wirepb.ServerMessage{Message: ping}); err != nil {
				return err
			}
			pings++
		}
	}
}

// read reads messages until the connection ends.
func (c *session) read() error {
	for {
		m := &wirepb.ClientMessage{}
		if err := c.conn.Read(m); err != nil {
			return err
		}
		c.lastMessage.Store(time.Now().UnixNano())
		if err := c.handle(m); err != nil {
			return err
		}
	}
}

// handle handles a message of the client.
func (c *session) handle(m *wirepb.ClientMessage) error {
	switch m := m.GetMessage().(type) {
	case *wirepb.ClientMessage_Ack:
		unjudged := map[policy.Key]string{}
		for _, u := range m.Ack.GetUnjudged() {
			unjudged[codec.DecodeKey(u.GetEndpoint())] = u.GetReason()
		}
		c.server.mu.Lock()
		c.server.unjudged = unjudged
		c.server.mu.Unlock()
		return c.answered(m.Ack.GetRequest(), false, func(a *answer) { a.objects = m.Ack.GetObjects() })
	case *wirepb.ClientMessage_PlanResult:
		r := m.PlanResult
		return c.answered(r.GetRequest(), r.GetMore(), func(a *answer) {
			a.plan += r.GetText()
			a.planError = r.GetError()
		})
	case *wirepb.ClientMessage_StatusUpdate:
		c.server.report(dataplane.Drift{Backend: backend, Object: "status of objects", OnlyFaults: true})
	case *wirepb.ClientMessage_Drift:
		d := m.Drift
		c.server.report(dataplane.Drift{
			Backend: d.GetBackend(), Object: d.GetObject(), Process: d.GetProcess(),
			Foreign: d.GetForeign(), Repaired: d.GetRepaired(),
		})
	case *wirepb.ClientMessage_Pong:
	default:
		return fmt.Errorf("message %T is not expected here", m)
	}
	return nil
}

// answered records an answer or a part of an answer. Answers must come in the order of the
// requests. Otherwise, answered returns an error.
func (c *session) answered(number uint64, more bool, fill func(*answer)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pending := c.waiting[number]
	if pending == nil || number != slices.Min(slices.Collect(maps.Keys(c.waiting))) {
		return fmt.Errorf("unexpected answer to request %d", number)
	}
	fill(&pending.answer)
	if !more {
		delete(c.waiting, number)
		close(pending.done)
	}
	return nil
}
