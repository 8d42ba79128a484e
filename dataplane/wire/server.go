// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/internal/state"
	"github.com/wayleave/wayleave/policy"
)

var (
	// ErrNotConnected is wrapped by the errors of a Server that has no client, or whose client
	// disconnects.
	ErrNotConnected = errors.New("no client is connected")
	// ErrNoPlan is wrapped by the errors of Plan if the client's dataplane is not a
	// dataplane.Planner.
	ErrNoPlan = errors.New("the client cannot plan")
)

// Version is the version of the protocol that this package implements.
const Version = 1

const (
	// DefaultMaxMessage is the default of ServerConfig.MaxMessage and ClientConfig.MaxMessage: 16
	// MiB.
	DefaultMaxMessage = 16 << 20
	// DefaultTimeout is the default of ServerConfig.Timeout and ClientConfig.Timeout.
	DefaultTimeout = 30 * time.Second
	// minMessage is the minimum of ServerConfig.MaxMessage. The largest messages are parts of large
	// sets: they have up to about 450 KiB.
	minMessage = 1 << 20
)

// ServerConfig configures a Server. It is copied by NewServer.
type ServerConfig struct {
	// Name of the program, for the clients' logs. Default "wayleave".
	Name string
	// Authenticate returns an error if the connection must be refused. The function Users returns a
	// function for this field. Authenticate may be called concurrently. Default SameUser.
	Authenticate func(net.Conn) error
	// MaxMessage is the maximum length of a message in bytes, at least 1 MiB. Default
	// DefaultMaxMessage.
	MaxMessage uint32
	// Timeout is the maximum time that a client may take to send its first message, to read a
	// message, or to answer a Ping. It does not limit the time to apply a batch. Default
	// DefaultTimeout.
	Timeout time.Duration
	// Logger logs clients that connect and disconnect. Nil discards.
	Logger *slog.Logger
}

func (c ServerConfig) withDefaults() ServerConfig {
	c.Name = cmp.Or(c.Name, "wayleave")
	if c.Authenticate == nil {
		c.Authenticate = SameUser
	}
	c.MaxMessage = cmp.Or(c.MaxMessage, DefaultMaxMessage)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

var (
	_ dataplane.Dataplane = (*Server)(nil)
	_ dataplane.Planner   = (*Server)(nil)
	_ dataplane.Watcher   = (*Server)(nil)
	_ dataplane.Limited   = (*Server)(nil)
)

// Server is a dataplane that sends its batches to a client in another process. The client applies
// them.
//
// Its methods may be called from any goroutine. But only one goroutine at a time may call the
// methods of the interface dataplane.Dataplane.
type Server struct {
	cfg ServerConfig
	id  []byte // ServerHello.session, by which a client that reconnects recognises this Server

	mu      sync.Mutex
	desired *state.State
	history history
	client  *session // nil if there is none
	// unjudged is the result of the method Unjudged of the client's dataplane, as the client last
	// sent it.
	unjudged map[policy.Key]string
	watchers map[*watcher]struct{}
	// missed is set if a drift was reported while there was no watcher.
	missed bool
}

// watcher is a call of Watch.
type watcher struct{ drifted func(dataplane.Drift) }

// NewServer returns a Server. Clients can connect once Serve or ServeConn runs. Errors: the
// configuration is invalid.
func NewServer(cfg ServerConfig) (*Server, error) {
	cfg = cfg.withDefaults()
	var errs []error
	if cfg.MaxMessage < minMessage {
		errs = append(errs, fmt.Errorf("wire: ServerConfig.MaxMessage: want at least %d, not %d",
			minMessage, cfg.MaxMessage))
	}
	if cfg.Timeout < 0 {
		errs = append(errs, errors.New("wire: ServerConfig.Timeout: must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Server{
		cfg: cfg, id: []byte(rand.Text()), desired: state.New(), watchers: map[*watcher]struct{}{},
	}, nil
}

// Apply implements dataplane.Dataplane. It returns once the client has applied the batch. While no
// client is connected, Apply only records the batch for the next client.
//
// Errors: each *dataplane.ApplyError that the client's dataplane returned, joined. While no client
// is connected, Apply returns nil until the event InSync. From this event on, it returns an error
// that wraps ErrNotConnected.
func (s *Server) Apply(ctx context.Context, b dataplane.Batch) error {
	s.mu.Lock()
	s.desired.Apply(b)
	generation := s.history.add(b)
	client, inSync := s.client, s.desired.InSync()
	s.mu.Unlock()
	if client == nil && !inSync {
		return nil
	}
	return s.request(ctx, client, "apply", batchRequest(generation, false, b))
}

// Resync implements dataplane.Dataplane. It returns the same errors as Apply.
func (s *Server) Resync(ctx context.Context) error {
	s.mu.Lock()
	client, inSync := s.client, s.desired.InSync()
	s.mu.Unlock()
	if !inSync {
		return nil
	}
	return s.request(ctx, client, "resync", resyncRequest())
}

// Teardown implements dataplane.Dataplane. It fails with ErrNotConnected if no client is connected.
// Other errors are as for Apply. After an error, the Server still has its desired state.
func (s *Server) Teardown(ctx context.Context) error {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if err := s.request(ctx, client, "remove", teardownRequest()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.desired, s.unjudged = state.New(), nil
	s.history.reset()
	return nil
}

// Plan implements dataplane.Planner. It returns the plan of the client's dataplane. Errors:
// ErrNoPlan, ErrNotConnected, or an error with the text of the client's error.
func (s *Server) Plan(ctx context.Context, b dataplane.Batch) (string, error) {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	switch {
	case client == nil:
		return "", applyError("plan", ErrNotConnected)
	case !client.plans:
		return "", applyError("plan", ErrNoPlan)
	}
	answer, err := client.call(ctx, planRequest(b))
	if err == nil && answer.planError != "" {
		err = errors.New(answer.planError)
	}
	if err != nil {
		return "", applyError("plan", err)
	}
	return answer.plan, nil
}

// Unjudged implements dataplane.Limited. For some endpoints, it returns a text about traffic that
// policy does not see. The texts come from the client's dataplane. Unjudged returns those that the
// client sent last.
func (s *Server) Unjudged() map[policy.Key]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.unjudged)
}

// Watch implements dataplane.Watcher. It calls drifted for each drift that the client detects, and
// when a client connects or disconnects. It may call drifted from several goroutines. Errors: the
// error of ctx.
func (s *Server) Watch(ctx context.Context, drifted func(dataplane.Drift)) error {
	w := &watcher{drifted}
	s.mu.Lock()
	s.watchers[w] = struct{}{}
	missed := s.missed
	s.missed = false
	s.mu.Unlock()
	if missed {
		drifted(dataplane.Drift{Backend: backend, Object: "unknown object"})
	}
	drifted(dataplane.Drift{Backend: backend, Object: "client", OnlyFaults: true})
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
	return ctx.Err()
}

// Connected reports whether a client is connected.
func (s *Server) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client != nil
}

// backend is the name of this package in errors and drifts.
const backend = "wire"

func applyError(op string, err error) error {
	return &dataplane.ApplyError{Backend: backend, Op: op, Err: err}
}

// request sends a request and returns the errors in its answer.
func (s *Server) request(ctx context.Context, client *session, op string, r request) error {
	if client == nil {
		return applyError(op, ErrNotConnected)
	}
	answer, err := client.call(ctx, r)
	if err != nil {
		return applyError(op, err)
	}
	return codec.DecodeStatus(answer.objects)
}

// report reports a drift to the callers of Watch.
func (s *Server) report(d dataplane.Drift) {
	s.mu.Lock()
	watchers := maps.Clone(s.watchers)
	s.missed = s.missed || len(watchers) == 0 && !d.OnlyFaults
	s.mu.Unlock()
	for w := range watchers {
		w.drifted(d)
	}
}
