// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/internal/frame"
	"github.com/wayleave/wayleave/dataplane/wire/internal/parts"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// connection is the client's side of a connection.
type connection struct {
	*Client
	conn *frame.Conn
	// tasks are the requests of the server that are not handled yet.
	tasks chan task
	// unrepaired is set from the report of a drift until the server sends a Resync.
	unrepaired bool
}

// task handles a request, and answers it.
type task func(ctx context.Context) error

// serve serves one connection until it ends. It returns the reason.
func (c *Client) serve(ctx context.Context, conn net.Conn) error {
	const queued = 64
	l := &connection{
		Client: c, conn: frame.New(conn, c.cfg.MaxMessage, c.cfg.Timeout), tasks: make(chan task, queued),
	}
	if err := l.handshake(conn); err != nil {
		return err
	}
	work := ctx // not cancelled when the connection ends: the dataplane completes the current call
	ctx, cancel := context.WithCancelCause(ctx)
	read := make(chan struct{})
	defer func() {
		<-read
		if l.unrepaired { // the server may not have received the drift
			c.drifted(dataplane.Drift{Backend: backend, Object: "unknown object"})
		}
	}()
	defer func() { _ = conn.Close() }()
	defer cancel(nil)
	go func() {
		defer close(read)
		cancel(l.read(ctx, conn))
	}()
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case do := <-l.tasks:
			err = do(work)
		case d := <-c.drifts:
			err = l.report(d)
		case <-c.overflow:
			err = l.report(dataplane.Drift{Backend: backend, Object: "unknown object"})
		case <-c.worker.unfinished():
			c.worker.finish(work)
		}
		if err != nil {
			return err
		}
	}
}

// handshake exchanges the Hello messages.
func (l *connection) handshake(conn net.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(l.cfg.Timeout)); err != nil {
		return err
	}
	_, plans := l.cfg.Dataplane.(dataplane.Planner)
	err := l.conn.Write(&wirepb.ClientMessage{Message: &wirepb.ClientMessage_Hello{Hello: &wirepb.ClientHello{
		Version: Version, Name: l.cfg.Name, Session: []byte(l.worker.session), Generation: l.worker.generation,
		Plans: plans,
	}}})
	if err != nil {
		return err
	}
	m := &wirepb.ServerMessage{}
	if err := l.conn.Read(m); err != nil {
		return err
	}
	hello := m.GetHello()
	switch {
	case hello == nil:
		return fmt.Errorf("%w: the first message is not a ServerHello", errProtocol)
	case hello.GetError() != "":
		return fmt.Errorf("wire: the server refuses the client: %s", hello.GetError())
	case hello.GetVersion() != Version:
		return fmt.Errorf("%w: version %d, want %d", errProtocol, hello.GetVersion(), Version)
	}
	l.conn.Limit(hello.GetMaxMessageBytes())
	if session := string(hello.GetSession()); session != l.worker.session {
		l.worker.session, l.worker.generation = session, 0
	}
	l.cfg.Logger.Info("connected", "server", hello.GetName())
	return nil
}

// read reads messages until the connection ends.
func (l *connection) read(ctx context.Context, conn net.Conn) error {
	var pending assembler
	for {
		// The server sends three pings within its timeout.
		if err := conn.SetReadDeadline(time.Now().Add(2 * l.cfg.Timeout)); err != nil {
			return err
		}
		m := &wirepb.ServerMessage{}
		if err := l.conn.Read(m); err != nil {
			return err
		}
		if err := codec.CheckKnown(m); err != nil {
			return errors.Join(errProtocol, err)
		}
		do, err := l.taskOf(m, &pending)
		if err != nil {
			return err
		}
		if do == nil {
			continue
		}
		select {
		case l.tasks <- do:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// taskOf returns the task of a message. It returns nil for a part that is not the last, and for a
// Ping, which it answers.
func (l *connection) taskOf(m *wirepb.ServerMessage, pending *assembler) (task, error) {
	switch m := m.GetMessage().(type) {
	case *wirepb.ServerMessage_Batch:
		b := m.Batch
		complete, err := pending.add(b.GetRequest(), b.GetSnapshot(), b.GetMore(), b.GetEvents())
		if err != nil || complete == nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			err := l.worker.apply(ctx, b.GetGeneration(), complete.snapshot, complete.batch)
			return l.acknowledge(ctx, b.GetRequest(), err)
		}, nil
	case *wirepb.ServerMessage_Plan:
		p := m.Plan
		complete, err := pending.add(p.GetRequest(), false, p.GetMore(), p.GetEvents())
		if err != nil || complete == nil {
			return nil, err
		}
		return func(ctx context.Context) error { return l.plan(ctx, p.GetRequest(), complete.batch) }, nil
	case *wirepb.ServerMessage_Resync:
		return func(ctx context.Context) error {
			l.unrepaired = false
			return l.acknowledge(ctx, m.Resync.GetRequest(), l.worker.resync(ctx))
		}, nil
	case *wirepb.ServerMessage_Teardown:
		return func(ctx context.Context) error {
			return l.acknowledge(ctx, m.Teardown.GetRequest(), l.worker.teardown(ctx))
		}, nil
	case *wirepb.ServerMessage_Ping:
		return nil, l.conn.Write(&wirepb.ClientMessage{Message: &wirepb.ClientMessage_Pong{
			Pong: &wirepb.Pong{Number: m.Ping.GetNumber()},
		}})
	default:
		return nil, fmt.Errorf("%w: message %T is not expected here", errProtocol, m)
	}
}

// acknowledge answers a request with the errors of the dataplane.
func (l *connection) acknowledge(ctx context.Context, request uint64, err error) error {
	if ctx.Err() != nil {
		return ctx.Err() // err may only say that the call was cancelled because ctx is done
	}
	ack := &wirepb.Ack{Request: request, Objects: codec.EncodeStatus(err)}
	unjudged := l.worker.unjudged()
	for _, key := range slices.SortedFunc(maps.Keys(unjudged), policy.Key.Compare) {
		ack.Unjudged = append(ack.Unjudged, &wirepb.Unjudged{
			Endpoint: codec.EncodeKey(key), Reason: codec.Text(unjudged[key]),
		})
	}
	return l.conn.Write(&wirepb.ClientMessage{Message: &wirepb.ClientMessage_Ack{Ack: ack}})
}

// textSize is the size in bytes of each part of a plan, except the last one. A part may be longer
// by a few bytes, to end with a whole character.
const textSize = 256 << 10

// plan answers a request for a plan, in parts.
func (l *connection) plan(ctx context.Context, request uint64, b dataplane.Batch) error {
	result := &wirepb.PlanResult{Request: request}
	text, err := l.worker.plan(ctx, b)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		result.Error = codec.Text(err.Error())
	}
	text = strings.ToValidUTF8(text, "?")
	for more := true; more; {
		end := min(len(text), textSize)
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		result.Text, text = text[:end], text[end:]
		more = text != ""
		result.More = more
		message := &wirepb.ClientMessage{Message: &wirepb.ClientMessage_PlanResult{PlanResult: result}}
		if err := l.conn.Write(message); err != nil {
			return err
		}
	}
	return nil
}

// report reports a drift to the server.
func (l *connection) report(d dataplane.Drift) error {
	m := &wirepb.ClientMessage{}
	if d.OnlyFaults {
		m.Message = &wirepb.ClientMessage_StatusUpdate{StatusUpdate: &wirepb.StatusUpdate{}}
	} else {
		l.unrepaired = l.unrepaired || !d.Repaired
		m.Message = &wirepb.ClientMessage_Drift{Drift: &wirepb.Drift{
			Backend: codec.Text(d.Backend), Object: codec.Text(d.Object), Process: codec.Text(d.Process),
			Foreign: d.Foreign, Repaired: d.Repaired,
		}}
	}
	return l.conn.Write(m)
}

// assembler joins the parts of a batch.
type assembler struct {
	request  uint64 // number of the request that the parts belong to; 0 if there are none
	snapshot bool
	events   parts.Assembler
}

// assembled is a complete batch.
type assembled struct {
	batch    dataplane.Batch
	snapshot bool
}

// add adds a part. After the last part, it returns the batch.
func (a *assembler) add(request uint64, snapshot, more bool, events []*wirepb.Event) (*assembled, error) {
	if request == 0 || a.request != 0 && a.request != request {
		return nil, fmt.Errorf("%w: request %d within the parts of request %d", errProtocol, request, a.request)
	}
	if a.request == 0 {
		*a = assembler{request: request, snapshot: snapshot}
	}
	if err := a.events.Add(events); err != nil {
		return nil, errors.Join(errProtocol, err)
	}
	if more {
		return nil, nil
	}
	complete := &assembled{a.events.Batch(), a.snapshot}
	*a = assembler{}
	return complete, nil
}
