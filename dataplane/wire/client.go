// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/state"
)

// ClientConfig configures a Client. It is copied by NewClient.
type ClientConfig struct {
	// Dataplane is the dataplane to which the Client applies batches. Nothing else may call it.
	// Required.
	Dataplane dataplane.Dataplane
	// Name of the program, for the server's log. Default "wayleave".
	Name string
	// Authenticate returns an error if the server is not trusted. The function Users makes an
	// Authenticate that trusts the given users. Nil means that all servers are trusted.
	Authenticate func(net.Conn) error
	// MaxMessage is the maximum length of a message in bytes. A server can lower it. Default
	// DefaultMaxMessage.
	MaxMessage uint32
	// Timeout is the maximum time that the server may take to send its first message, or to read a
	// message. If the server sends no message for twice that time, the client disconnects. Default
	// DefaultTimeout.
	Timeout time.Duration
	// MaxBackoff is the longest wait before the client connects again. Default 5 s.
	MaxBackoff time.Duration
	// Logger logs connections and failures. Nil discards.
	Logger *slog.Logger
}

// Client applies the batches of a Server to a dataplane. Call Run once.
type Client struct {
	cfg    ClientConfig
	worker worker
	// drifts are the drifts that the dataplane's Watch has reported.
	drifts chan dataplane.Drift
	// overflow has a token if drifts were discarded because the queue was full.
	overflow chan struct{}
}

// NewClient returns a Client, which does not connect before Run. Errors: ClientConfig.Dataplane is
// nil.
func NewClient(cfg ClientConfig) (*Client, error) {
	cfg.Name = cmp.Or(cfg.Name, "wayleave")
	cfg.MaxMessage = cmp.Or(cfg.MaxMessage, DefaultMaxMessage)
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.MaxBackoff = cmp.Or(cfg.MaxBackoff, 5*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Dataplane == nil {
		return nil, errors.New("wire: ClientConfig.Dataplane: required")
	}
	const queued = 1000
	return &Client{
		cfg: cfg, worker: worker{dp: cfg.Dataplane, applied: state.New(), log: cfg.Logger},
		drifts: make(chan dataplane.Drift, queued), overflow: make(chan struct{}, 1),
	}, nil
}

// Serve receives the batches of a server on one connection, and applies them to dp. When ctx is
// done or the connection ends, it closes the connection and returns. The kernel keeps what the
// dataplane has programmed. Serve uses a Client whose ClientConfig has the default values.
//
// Errors: dp is nil; the error of ctx; an error that says why the connection ended.
func Serve(ctx context.Context, conn net.Conn, dp dataplane.Dataplane) error {
	c, err := NewClient(ClientConfig{Dataplane: dp})
	if err != nil {
		return err
	}
	return c.runWithWatch(ctx, func(ctx context.Context) error {
		return c.connect(ctx, func(context.Context) (net.Conn, error) { return conn, nil })
	})
}

// Run connects to a server by dial. When the connection ends, it connects again, until ctx is done.
// Even while it is not connected, it repairs drifts: changes by other processes that the dataplane
// reports. When Run returns, the kernel keeps what the dataplane has programmed.
//
// Errors: the error of ctx.
func (c *Client) Run(ctx context.Context, dial func(context.Context) (net.Conn, error)) error {
	return c.runWithWatch(ctx, func(ctx context.Context) error { return c.reconnect(ctx, dial) })
}

// runWithWatch calls work. While work runs, it also runs the dataplane's Watch.
func (c *Client) runWithWatch(ctx context.Context, work func(context.Context) error) error {
	var watcher sync.WaitGroup
	defer watcher.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if w, ok := c.cfg.Dataplane.(dataplane.Watcher); ok {
		watcher.Go(func() { c.watch(ctx, w) })
	}
	return work(ctx)
}

// reconnect connects again and again until ctx is done.
func (c *Client) reconnect(ctx context.Context, dial func(context.Context) (net.Conn, error)) error {
	wait := c.minBackoff()
	for {
		began := time.Now()
		err := c.connect(ctx, dial)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > c.cfg.MaxBackoff {
			wait = c.minBackoff()
		}
		c.cfg.Logger.Warn("no connection to the server", "err", err, "retry_in", wait)
		if err := c.idle(ctx, wait/2+rand.N(wait/2+1)); err != nil {
			return err
		}
		wait = min(2*wait, c.cfg.MaxBackoff)
	}
}

func (c *Client) minBackoff() time.Duration { return min(50*time.Millisecond, c.cfg.MaxBackoff) }

// connect connects, and serves the connection until it ends. It returns the reason for the end.
func (c *Client) connect(ctx context.Context, dial func(context.Context) (net.Conn, error)) error {
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if c.cfg.Authenticate != nil {
		if err := c.cfg.Authenticate(conn); err != nil {
			return err
		}
	}
	err = c.serve(ctx, conn)
	if ctx.Err() != nil {
		return ctx.Err() // err may only say that the connection was closed because ctx is done
	}
	return err
}

// watch runs the dataplane's Watch, and starts it again when it fails.
func (c *Client) watch(ctx context.Context, w dataplane.Watcher) {
	for ctx.Err() == nil {
		err := w.Watch(ctx, c.drifted)
		if ctx.Err() != nil {
			return
		}
		c.cfg.Logger.Warn("cannot watch the dataplane", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		c.drifted(dataplane.Drift{Backend: backend, Object: "unknown object"})
	}
}

// drifted queues a drift. If the queue is full, it only records that drifts were discarded.
func (c *Client) drifted(d dataplane.Drift) {
	select {
	case c.drifts <- d:
	default:
		select {
		case c.overflow <- struct{}{}:
		default:
		}
	}
}

// idle waits while there is no connection. Meanwhile it repairs drifts, and completes deletions
// that the dataplane has left for later. It returns the error of ctx.
func (c *Client) idle(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case d := <-c.drifts:
			c.worker.repair(ctx, d)
		case <-c.overflow:
			c.worker.repair(ctx, dataplane.Drift{})
		case <-c.worker.unfinished():
			c.worker.finish(ctx)
		}
	}
}

// errProtocol is wrapped by errors about messages that the protocol does not allow.
var errProtocol = errors.New("wire: the server violates the protocol")
