// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

var _ dataplane.Dataplane = (*Server)(nil)

// maxChecks limits how many peers, of all endpoints, are checked at a time. Each check occupies a
// thread.
const maxChecks = 8

// Server is a dataplane that sends the policy of each local workload endpoint to processes in the
// workload. Put it last in DriverConfig.Dataplanes: then a process receives a change only once the
// kernel enforces it.
//
// Its methods may be called from any goroutine. But only one goroutine at a time may call the
// methods of the interface dataplane.Dataplane.
type Server struct {
	cfg  ServerConfig
	node *node
	// checks has a token for each peer that is being checked.
	checks chan struct{}
	// goroutines are the goroutines of endpoints.
	goroutines sync.WaitGroup
	// closing is closed when Close stops waiting for clients.
	closing chan struct{}

	mu      sync.Mutex
	desired *desired
	// last has the events of the last batch, to recognise a retry.
	last []dataplane.Event
	// served are the endpoints that have a socket.
	served map[policy.Key]*endpoint
	// cleaned is set by the first attempt to remove stale sockets.
	cleaned bool
	closed  bool
}

// NewServer returns a Server. Errors: the configuration is invalid.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Server{
		cfg: cfg, node: &node{fd: cfg.NetNS}, checks: make(chan struct{}, maxChecks), closing: make(chan struct{}),
		desired: newDesired(cfg.Logger), served: map[policy.Key]*endpoint{},
	}, nil
}

// Apply implements dataplane.Dataplane. It opens and closes sockets, and queues the changes for
// subscribers. It does not wait until subscribers have received them.
//
// Errors: a join of *dataplane.ApplyError, one for each endpoint at fault. The next call tries
// again. After Close, Apply returns one ApplyError that names no object. An endpoint is at fault in
// these cases:
//
//   - its socket cannot be opened;
//   - another endpoint has the same path;
//   - its policy cannot be sent. The endpoint has a socket nevertheless, and calls end with
//     codes.FailedPrecondition and the reason.
func (s *Server) Apply(_ context.Context, b dataplane.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if retry := !b.Empty() && slices.Equal(b.Events, s.last); !retry {
		changed := s.desired.Apply(b)
		s.stopRemovedLocked()
		for _, e := range s.served {
			e.publishLocked(b, changed)
		}
		if !b.Empty() {
			s.last = b.Events
		}
	}
	return s.openLocked()
}

// Resync implements dataplane.Dataplane. It opens a socket again if the socket's file is gone.
// Errors: the same as those of Apply.
func (s *Server) Resync(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.served {
		if !e.listener.intact() {
			s.cfg.Logger.Warn("the socket is gone", "endpoint", e.key, "path", e.path)
			e.stopLocked(status.Error(codes.Unavailable, "the socket is gone"))
		}
	}
	return s.openLocked()
}

// Teardown implements dataplane.Dataplane. It removes all sockets, and ends all calls with
// codes.Unavailable. With ServerConfig.Folder, it also removes the sockets that a killed server has
// left there. Errors: those of the system.
func (s *Server) Teardown(context.Context) error {
	s.stopAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.desired, s.last = newDesired(s.cfg.Logger), nil
	if s.cfg.Folder == "" {
		return nil
	}
	if err := removeStale(s.cfg.Folder); err != nil {
		return &dataplane.ApplyError{Backend: backend, Op: "remove stale sockets", Err: err}
	}
	return nil
}

// Close removes all sockets, ends all calls with codes.Unavailable, and waits until all calls have
// ended. If a client takes more than 2 s to read this status, Close closes the client's connection.
// The Server cannot be used afterwards. Close returns nil.
func (s *Server) Close() error {
	const grace = 2 * time.Second
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		time.AfterFunc(grace, func() { close(s.closing) })
	}
	s.mu.Unlock()
	s.stopAll()
	s.goroutines.Wait()
	s.node.close()
	return nil
}

// stopAll stops all endpoints.
func (s *Server) stopAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.served {
		e.stopLocked(status.Error(codes.Unavailable, "the server is shutting down"))
	}
}

// stopRemovedLocked stops the endpoints that no longer exist, and ends the calls of endpoints whose
// policy cannot be sent.
func (s *Server) stopRemovedLocked() {
	for key, e := range s.served {
		if s.desired.Endpoint(key) == nil {
			e.stopLocked(status.Error(codes.NotFound, "the endpoint is removed"))
		} else {
			_ = e.checkLocked() // openLocked returns the error
		}
	}
}

// cleanLocked removes the sockets that a killed server has left in ServerConfig.Folder. It does so
// only once.
func (s *Server) cleanLocked() {
	if s.cleaned || s.cfg.Folder == "" {
		return
	}
	s.cleaned = true
	if err := removeStale(s.cfg.Folder); err != nil {
		s.cfg.Logger.Warn("cannot remove stale sockets", "folder", s.cfg.Folder, "err", err)
	}
}

// openLocked opens the sockets of the desired state that are missing, and those whose path has
// changed. It returns the errors of all endpoints.
func (s *Server) openLocked() error {
	if s.closed {
		return &dataplane.ApplyError{Backend: backend, Op: "apply", Err: errors.New("the server is closed")}
	}
	if !s.desired.InSync() {
		return nil
	}
	s.cleanLocked()
	paths := map[policy.Key]string{} // paths of endpoints that need a socket
	for key := range s.desired.Endpoints() {
		path, e := s.cfg.Socket(key), s.served[key]
		if e != nil && e.path != path {
			e.stopLocked(status.Error(codes.Unavailable, "the socket has another path"))
			e = nil
		}
		if e == nil && path != "" {
			paths[key] = path
		}
	}
	users := map[string]policy.Key{}
	for key, e := range s.served {
		users[e.path] = key
	}
	var errs []error
	failed := func(key policy.Key, err error) {
		errs = append(errs, &dataplane.ApplyError{Backend: backend, Op: "serve", Object: key, Err: err})
	}
	for _, key := range sortedKeys(paths) {
		path := paths[key]
		if user, ok := users[path]; ok {
			failed(key, fmt.Errorf("%s is the socket of %s", path, user))
		} else if err := s.serveLocked(key, path); err != nil {
			failed(key, err)
		} else {
			users[path] = key
		}
	}
	for _, key := range sortedKeys(s.served) {
		if err := s.desired.malformed(key); err != nil {
			failed(key, err)
		}
	}
	return errors.Join(errs...)
}

// backend is the name of this package in errors.
const backend = "policysync"
