// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/internal/parts"
	"github.com/wayleave/wayleave/dataplane/wire/internal/sockets"
	"github.com/wayleave/wayleave/dataplane/wire/internal/state"
	"github.com/wayleave/wayleave/dataplane/wire/policysync/policysyncpb"
	"github.com/wayleave/wayleave/policy"
)

// ClientConfig configures a Client. It is copied by NewClient.
type ClientConfig struct {
	// Path of the socket. On Linux, if /proc is mounted, the path may be longer than the 107 bytes
	// of sun_path (unix(7)). Required.
	Path string
	// Changed is called with each new state, on the goroutine of Run. Optional.
	Changed func(*State)
	// Name of the program, which servers log. Default "wayleave".
	Name string
	// MaxBackoff is the longest wait before the client connects again. Default 5 s.
	MaxBackoff time.Duration
	// Logger logs failures. Nil discards.
	Logger *slog.Logger
}

// Client connects to the socket of an endpoint, and keeps the current policy of the endpoint.
//
// Run must be called exactly once. State may be called from any goroutine.
type Client struct {
	cfg   ClientConfig
	state atomic.Pointer[State]
}

// NewClient returns a Client, which does nothing until Run is called. Errors: the configuration is
// invalid.
func NewClient(cfg ClientConfig) (*Client, error) {
	var errs []error
	if cfg.Path == "" {
		errs = append(errs, errors.New("policysync: ClientConfig.Path: required"))
	}
	if cfg.MaxBackoff < 0 {
		errs = append(errs, errors.New("policysync: ClientConfig.MaxBackoff: must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	cfg.Name = cmp.Or(cfg.Name, "wayleave")
	cfg.MaxBackoff = cmp.Or(cfg.MaxBackoff, 5*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Client{cfg: cfg}, nil
}

// Watch connects to the socket of an endpoint, and calls changed with each state of the endpoint's
// policy, until ctx is done. It uses a Client with the default configuration. It returns the error
// of ctx, or an error if path is empty.
func Watch(ctx context.Context, path string, changed func(*State)) error {
	c, err := NewClient(ClientConfig{Path: path, Changed: changed})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// State returns the last state that the server sent, or nil before the first one. While there is no
// connection, it still returns the last state. In the following cases it returns a state without an
// endpoint, which denies everything:
//
//   - the endpoint was removed;
//   - this process is no longer in the endpoint's workload;
//   - the server cannot send the policy, or the client cannot read it.
func (c *Client) State() *State { return c.state.Load() }

// Run connects to the socket, and receives states until ctx is done. If the connection ends, it
// waits and connects again. Errors: the error of ctx.
func (c *Client) Run(ctx context.Context) error {
	minWait := min(50*time.Millisecond, c.cfg.MaxBackoff)
	wait := minWait
	for {
		complete, err := c.connect(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if complete {
			wait = minWait
		}
		if s := c.State(); outdated(err) && (s == nil || s.reason != err.Error()) {
			c.publish(&State{Key: c.key(), Objects: dptest.NewState(), reason: err.Error()})
		}
		c.cfg.Logger.Warn("no policy updates", "err", err, "retry_in", wait)
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		wait = min(2*wait, c.cfg.MaxBackoff)
	}
}

// connect makes one call and receives its responses until the call ends. It returns the error with
// which the call ended. complete reports whether at least one complete state was received.
func (c *Client) connect(ctx context.Context) (complete bool, err error) {
	const maxResponse = 64 << 20 // a large policy is not divided: it is one event
	conn, err := grpc.NewClient("passthrough:///policysync",
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the kernel connects the two, on one machine
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return sockets.Dial(ctx, c.cfg.Path)
		}),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxResponse)))
	if err != nil {
		return false, fmt.Errorf("policysync: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	responses, err := policysyncpb.NewPolicySyncClient(conn).Sync(ctx, &policysyncpb.SyncRequest{Name: c.cfg.Name})
	if err != nil {
		return false, fmt.Errorf("policysync: %w", err)
	}
	var assembler parts.Assembler
	current := (*state.State)(nil)
	for {
		r, err := responses.Recv()
		if err != nil {
			return complete, fmt.Errorf("policysync: %w", err)
		}
		if err := codec.CheckKnown(r); err != nil {
			return complete, fmt.Errorf("%w: %w", errEvents, err)
		}
		if err := assembler.Add(r.GetEvents()); err != nil {
			return complete, fmt.Errorf("%w: %w", errEvents, err)
		}
		if r.GetSnapshot() {
			current = state.New()
		}
		if r.GetMore() {
			continue
		}
		if current == nil {
			return complete, fmt.Errorf("%w: changes before a snapshot", errEvents)
		}
		current.Apply(assembler.Batch())
		if current.InSync() {
			complete = true
			c.publish(newState(current.Objects(), c.State()))
		}
	}
}

// errEvents is wrapped by errors about events that the client cannot read.
var errEvents = errors.New("policysync: the client cannot decode the events")

// outdated reports whether an error invalidates the last state. An error with status Unavailable
// does not: while there is no server, the last state stays valid, like policy in the kernel. All
// other errors invalidate it, also those of the gRPC library about a response that is too large
// (ResourceExhausted) or cannot be read (Internal).
func outdated(err error) bool { return status.Code(err) != codes.Unavailable }

// key returns the key of the last state.
func (c *Client) key() policy.Key {
	if s := c.State(); s != nil {
		return s.Key
	}
	return policy.Key{}
}

// publish makes a state the current one.
func (c *Client) publish(s *State) {
	c.state.Store(s)
	if c.cfg.Changed != nil {
		c.cfg.Changed(s)
	}
}
