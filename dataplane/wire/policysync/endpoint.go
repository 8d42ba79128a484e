// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/parts"
	"github.com/wayleave/wayleave/dataplane/wire/policysync/policysyncpb"
	"github.com/wayleave/wayleave/policy"
)

// endpoint is a workload endpoint with a socket. Server.mu guards its fields below refusals.
type endpoint struct {
	server   *Server
	key      policy.Key
	path     string
	listener *socket
	grpc     *grpc.Server
	refusals refusals

	// reason is the status with which all calls end at once; nil while calls are served.
	reason      error
	subscribers map[*subscriber]struct{}
	// view has the objects that subscribers have; nil if there are no subscribers.
	view *view
}

// serveLocked serves an endpoint on a socket. Errors: those of the system.
func (s *Server) serveLocked(key policy.Key, path string) error {
	listener, err := listen(path, 2*s.cfg.MaxSubscribers)
	if err != nil {
		return err
	}
	e := &endpoint{
		server: s, key: key, path: path, listener: listener, subscribers: map[*subscriber]struct{}{},
	}
	const maxRequest = 64 << 10
	e.grpc = grpc.NewServer(
		grpc.Creds(transport{e}), grpc.ConnectionTimeout(s.cfg.Timeout), grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxConcurrentStreams(uint32(s.cfg.MaxSubscribers)+1), // one more, which is refused with a reason
	)
	policysyncpb.RegisterPolicySyncServer(e.grpc, &service{endpoint: e})
	s.served[key] = e
	_ = e.checkLocked() // openLocked returns the error
	s.goroutines.Go(func() {
		if err := e.grpc.Serve(listener); err != nil {
			s.cfg.Logger.Debug("the socket is closed", "endpoint", key, "err", err)
		}
	})
	s.cfg.Logger.Info("listening", "endpoint", key, "path", path)
	return nil
}

// stopLocked removes the socket, and ends all calls with a status. It does not wait until they have
// ended.
func (e *endpoint) stopLocked(reason error) {
	s := e.server
	delete(s.served, e.key)
	e.refuseCallsLocked(reason)
	if err := e.listener.Close(); err != nil {
		s.cfg.Logger.Warn("cannot remove the socket", "endpoint", e.key, "path", e.path, "err", err)
	}
	s.cfg.Logger.Info("not listening any more", "endpoint", e.key, "path", e.path, "reason", reason)
	stopped := make(chan struct{})
	s.goroutines.Go(func() {
		defer close(stopped)
		e.grpc.GracefulStop()
	})
	s.goroutines.Go(func() {
		// A client reads the status after the message that it is reading. A client that gets no
		// status believes that the server has ended, and keeps its state. So give the client time
		// to read the status.
		select {
		case <-stopped:
			return
		case <-time.After(s.cfg.Timeout):
		case <-s.closing:
		}
		e.listener.closeAccepted() // Stop waits for clients that have not sent the preface of HTTP/2
		e.grpc.Stop()
	})
}

// refuseCallsLocked ends all calls with a status, and later calls as well. With nil, later calls
// are served again.
func (e *endpoint) refuseCallsLocked(reason error) {
	e.reason = reason
	if reason == nil {
		return
	}
	for sub := range e.subscribers {
		sub.reason = reason
		close(sub.ended)
	}
	clear(e.subscribers)
	e.view = nil
}

// checkLocked refuses calls while the policy cannot be sent. It returns why the policy cannot be
// sent, or nil.
func (e *endpoint) checkLocked() error {
	err := e.server.desired.malformed(e.key)
	switch {
	case err != nil:
		e.refuseCallsLocked(status.Error(codes.FailedPrecondition, err.Error()))
	case e.reason != nil:
		e.refuseCallsLocked(nil)
	}
	return err
}

// publishLocked queues the changes that a batch makes for the subscribers. changed is the parameter
// of view.update.
func (e *endpoint) publishLocked(b dataplane.Batch, changed bool) {
	if e.view == nil {
		return
	}
	update := e.view.update(e.server.desired, b, changed)
	if update.Empty() {
		return
	}
	size := parts.Size(update)
	for sub := range e.subscribers {
		sub.add(update, size, e.server.cfg.MaxQueued)
	}
}

// subscribe adds a subscriber. Its first response is a snapshot.
func (e *endpoint) subscribe() (*subscriber, error) {
	s := e.server
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.reason != nil:
		return nil, e.reason
	case len(e.subscribers) >= s.cfg.MaxSubscribers:
		return nil, status.Errorf(codes.Unavailable, "the endpoint has %d subscribers", len(e.subscribers))
	}
	sub := newSubscriber()
	e.subscribers[sub] = struct{}{}
	if e.view == nil {
		e.view = newView(s.desired, e.key)
	}
	return sub, nil
}

func (e *endpoint) unsubscribe(sub *subscriber) {
	e.server.mu.Lock()
	defer e.server.mu.Unlock()
	delete(e.subscribers, sub)
	if len(e.subscribers) == 0 {
		e.view = nil
	}
}

// nextResponse removes and returns the next response for a subscriber, and returns the current
// endpoint. The result ok is false if there is no response, or the call has ended.
func (e *endpoint) nextResponse(sub *subscriber) (next response, current *dataplane.Endpoint, ok bool) {
	s := e.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub.reason != nil {
		return response{}, nil, false
	}
	current = s.desired.Endpoint(e.key)
	if sub.snapshot {
		sub.snapshot = false
		return response{snapshotOf(s.desired, e.key), true}, current, true
	}
	b, ok := sub.next()
	return response{b, false}, current, ok
}

// current returns the endpoint as it is now, or nil.
func (e *endpoint) current() *dataplane.Endpoint {
	e.server.mu.Lock()
	defer e.server.mu.Unlock()
	return e.server.desired.Endpoint(e.key)
}
