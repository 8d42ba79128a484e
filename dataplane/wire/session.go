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
	// ended is closed when the connection has ended, for the reason lost.
	ended chan struct{}
	lost  error

	mu      sync.Mutex
	waiting map[uint64]*call
	heard   atomic.Int64 // when the last message came, in nanoseconds since 1970
}

// call is a request and its answer.
type call struct {
	request request
	answer  answer
	done    chan struct{} // closed once answer is complete
}

// answer is what a client answered.
type answer struct {
	objects         []*wirepb.ObjectStatus
	plan, planError string
}

func newCall(r request) *call { return &call{request: r, done: make(chan struct{})} }

// Serve accepts clients until ctx is done, and closes the listener then. The latest client replaces the one before.
//
// Errors: that of ctx, or of the listener.
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

// ServeConn serves one client until ctx is done, the client is gone, or another one replaces it. It closes the
// connection.
//
// Errors: that of ctx, or why the connection ended.
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
	hello, err := client.greet()
	if err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	client.plans = hello.GetPlans()
	client.heard.Store(time.Now().UnixNano())

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first, replaced := s.adopt(client, hello)
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
	s.dismiss(client, err)
	s.report(dataplane.Drift{Backend: backend, Object: "client", OnlyFaults: true})
	return err
}

// greet exchanges the first messages.
func (c *session) greet() (*wirepb.ClientHello, error) {
	m := &wirepb.ClientMessage{}
	if err := c.conn.Read(m); err != nil {
		return nil, err
	}
	hello := m.GetHello()
	if hello == nil {
		return nil, errors.New("the first message is no ClientHello")
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

// adopt makes the session the client of the server. It returns the requests that bring the client to the present
// state, and the client before.
func (s *Server) adopt(client *session, hello *wirepb.ClientHello) (first []*call, replaced *session) {
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

// dismiss ends the session's calls.
func (s *Server) dismiss(client *session, reason error) {
	s.mu.Lock()
	if s.client == client {
		s.client = nil
	}
	s.mu.Unlock()
	client.lost = fmt.Errorf("%w: the connection ended: %w", ErrNotConnected, reason)
	close(client.ended)
}

// call sends a request and waits for its answer.
func (c *session) call(ctx context.Context, r request) (answer, error) {
	made := newCall(r)
	select {
	case c.calls <- made:
	case <-c.ended:
		return answer{}, c.lost
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	select {
	case <-made.done:
		return made.answer, nil
	case <-c.ended:
		return answer{}, c.lost
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// write writes requests, the first ones before those of calls, and asks for signs of life.
func (c *session) write(ctx context.Context, first []*call) error {
	number := uint64(0)
	send := func(made *call) error {
		number++
		c.mu.Lock()
		c.waiting[number] = made
		c.mu.Unlock()
		return made.request(c.conn, number)
	}
	for _, made := range first {
		if err := send(made); err != nil {
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
		case made := <-c.calls:
			if err := send(made); err != nil {
				return err
			}
		case <-ticker.C:
			if silent := time.Since(time.Unix(0, c.heard.Load())); silent > timeout {
				return fmt.Errorf("no sign of life for %s", silent.Round(time.Second))
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
		c.heard.Store(time.Now().UnixNano())
		if err := c.take(m); err != nil {
			return err
		}
	}
}

// take handles one message.
func (c *session) take(m *wirepb.ClientMessage) error {
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

// answered records an answer, or a part of one. Requests are answered in order.
func (c *session) answered(number uint64, more bool, fill func(*answer)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := c.waiting[number]
	if made == nil || number != slices.Min(slices.Collect(maps.Keys(c.waiting))) {
		return fmt.Errorf("answer to request %d, which does not wait for one", number)
	}
	fill(&made.answer)
	if !more {
		delete(c.waiting, number)
		close(made.done)
	}
	return nil
}
