// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/parts"
	"github.com/wayleave/wayleave/dataplane/wire/policysync/policysyncpb"
)

// subscriber is a call of Sync. Server.mu guards its fields, except the channels.
type subscriber struct {
	// wake has a token if there is something to send.
	wake chan struct{}
	// ended is closed when the call is to end. reason is the status of the call, which does not
	// change afterwards.
	ended  chan struct{}
	reason error
	// snapshot is set if the subscriber needs a snapshot.
	snapshot bool
	// queue has the batches to send next. queuedSize is their total number of events and set
	// members.
	queue      []queued
	queuedSize int
}

// queued is a batch and its size.
type queued struct {
	batch dataplane.Batch
	size  int
}

// response is a batch for a subscriber.
type response struct {
	batch    dataplane.Batch
	snapshot bool
}

func newSubscriber() *subscriber {
	sub := &subscriber{wake: make(chan struct{}, 1), ended: make(chan struct{}), snapshot: true}
	sub.wake <- struct{}{}
	return sub
}

// add queues a batch. If the queue then has more than limit events and set members, the subscriber
// gets a snapshot instead of the queue.
func (s *subscriber) add(b dataplane.Batch, size, limit int) {
	if s.snapshot {
		return
	}
	s.queue = append(s.queue, queued{b, size})
	s.queuedSize += size
	if s.queuedSize > limit {
		s.queue, s.queuedSize, s.snapshot = nil, 0, true
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next removes the first batch of the queue.
func (s *subscriber) next() (b dataplane.Batch, ok bool) {
	if len(s.queue) == 0 {
		return dataplane.Batch{}, false
	}
	first := s.queue[0]
	s.queue[0] = queued{} // the array may live on, so release the batch
	s.queue = s.queue[1:]
	s.queuedSize -= first.size
	return first.batch, true
}

// service is the gRPC service of an endpoint.
type service struct {
	policysyncpb.UnimplementedPolicySyncServer
	endpoint *endpoint
}

// stream is the server's side of a call.
type stream = grpc.ServerStreamingServer[policysyncpb.SyncResponse]

// Sync implements policysyncpb.PolicySyncServer.
func (s *service) Sync(request *policysyncpb.SyncRequest, out stream) error {
	e := s.endpoint
	id, err := identityOf(out.Context())
	if err != nil {
		return err
	}
	sub, err := e.subscribe()
	if err != nil {
		return err
	}
	defer e.unsubscribe(sub)
	log := e.server.cfg.Logger.With("endpoint", e.key, "pid", id.peer.PID, "user", id.peer.User)
	log.Debug("subscribed", "name", request.GetName())
	err = e.follow(out, id, sub)
	log.Debug("subscription ended", "err", err)
	return err
}

// identityOf returns the identity of the peer of a call.
func identityOf(ctx context.Context) (*identity, error) {
	if p, ok := peer.FromContext(ctx); ok {
		if id, ok := p.AuthInfo.(*identity); ok {
			return id, nil
		}
	}
	return nil, status.Error(codes.Internal, "the connection has no identity")
}

// follow sends responses to a subscriber until its call ends, and returns the status of the call.
func (e *endpoint) follow(out stream, id *identity, sub *subscriber) error {
	for {
		select {
		case <-out.Context().Done():
			return status.FromContextError(out.Context().Err()).Err()
		case <-sub.ended:
			return sub.reason
		case <-sub.wake:
		}
		for {
			next, current, ok := e.nextResponse(sub)
			if !ok {
				break
			}
			// Meanwhile another workload may have got the endpoint's name or its interface.
			if err := id.check(current); err != nil {
				return status.Error(codes.PermissionDenied, err.Error())
			}
			if err := e.send(out, id, sub, next); err != nil {
				return err
			}
		}
	}
}

// send sends a response in parts. Errors: the status that the call ends with.
func (e *endpoint) send(out stream, id *identity, sub *subscriber, r response) error {
	return parts.Write(r.batch, func(p parts.Part) error {
		message := &policysyncpb.SyncResponse{Snapshot: r.snapshot && p.First, More: p.More, Events: p.Events}
		sent := make(chan error, 1)
		go func() { sent <- out.Send(message) }() // it returns when the call ends
		timeout := e.server.cfg.Timeout
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		var reason error
		select {
		case err := <-sent:
			return err
		case <-sub.ended:
			reason = sub.reason
		case <-timer.C:
			reason = status.Errorf(codes.Unavailable, "the client has not read a message for %s", timeout)
		}
		// The client gets the status after the messages that it has not read yet. If it reads
		// nothing, its connection is closed.
		time.AfterFunc(timeout, func() { _ = id.conn.Close() })
		return reason
	})
}
