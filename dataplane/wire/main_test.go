// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire"
	"github.com/wayleave/wayleave/policy"
)

// bad is the name of an interface that memory refuses.
const bad = "bad"

// kernel has the objects that dataplanes in memory have programmed. It outlives them.
type kernel struct {
	mu     sync.Mutex
	text   string
	state  dptest.State
	broken error
}

// memory is a dataplane in memory that programs a kernel.
type memory struct {
	*dptest.Mirror
	kernel *kernel
	drifts chan dataplane.Drift
	last   *dataplane.Batch
}

func newMemory(k *kernel) memory {
	return memory{dptest.NewMirror(), k, make(chan dataplane.Drift, 100), &dataplane.Batch{}}
}

// Apply accepts the same batch again, as a retry. The Mirror does so only if the events are the
// same pointers.
func (m memory) Apply(ctx context.Context, b dataplane.Batch) error {
	if b.Empty() || !reflect.DeepEqual(b, *m.last) {
		if err := m.Mirror.Apply(ctx, b); err != nil {
			return err
		}
	}
	if !b.Empty() {
		*m.last = b
	}
	return m.Resync(ctx)
}

// Resync cannot program an endpoint with the interface bad.
func (m memory) Resync(context.Context) error {
	m.kernel.mu.Lock()
	defer m.kernel.mu.Unlock()
	if m.kernel.broken != nil {
		return m.kernel.broken
	}
	s := m.State()
	if !s.InSync {
		return nil
	}
	m.kernel.state = s.Clone()
	var errs []error
	for key, ep := range s.Endpoints {
		if ep.Interface == bad {
			errs = append(errs, &dataplane.ApplyError{
				Backend: "memory", Op: "add", Object: key, Detail: "extended ack", Err: errors.New("bad interface"),
			})
			delete(s.Endpoints, key)
		}
	}
	m.kernel.text = s.String()
	return errors.Join(errs...)
}

func (m memory) Teardown(ctx context.Context) error {
	m.kernel.mu.Lock()
	defer m.kernel.mu.Unlock()
	m.kernel.text = ""
	return m.Mirror.Teardown(ctx)
}

func (m memory) Plan(_ context.Context, b dataplane.Batch) (string, error) { return b.String(), nil }

func (m memory) Unjudged() map[policy.Key]string {
	unjudged := map[policy.Key]string{}
	for key := range m.State().Endpoints {
		unjudged[key] = "all of it"
	}
	return unjudged
}

func (m memory) Watch(ctx context.Context, drifted func(dataplane.Drift)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case d := <-m.drifts:
			drifted(d)
		}
	}
}

func (k *kernel) dump() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text
}

func (k *kernel) set(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.text = text
}

func (k *kernel) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = err
}

func (k *kernel) judge(p dptest.Packet) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state.Judge(p).Allowed(), nil
}

// side is a process: a server or a client that can be stopped.
type side struct {
	stop context.CancelFunc
	done chan struct{}
}

func run(t *testing.T, work func(context.Context) error) *side {
	ctx, cancel := context.WithCancel(t.Context())
	s := &side{cancel, make(chan struct{})}
	go func() {
		defer close(s.done)
		_ = work(ctx)
	}()
	t.Cleanup(s.end)
	return s
}

func (s *side) end() {
	s.stop()
	<-s.done
}

// serve starts a server on a socket.
func serve(t *testing.T, path string, cfg wire.ServerConfig) (*wire.Server, *side) {
	t.Helper()
	cfg.Logger = logger(t)
	server, err := wire.NewServer(cfg)
	require.NoError(t, err)
	listener, err := wire.Listen(path)
	require.NoError(t, err)
	return server, run(t, func(ctx context.Context) error { return server.Serve(ctx, listener) })
}

// connect starts a client, and waits until the server has accepted it.
func connect(t *testing.T, server *wire.Server, path string, dp dataplane.Dataplane) *side {
	t.Helper()
	client, err := wire.NewClient(wire.ClientConfig{Dataplane: dp, Logger: logger(t)})
	require.NoError(t, err)
	s := run(t, func(ctx context.Context) error { return client.Run(ctx, wire.Dial(path)) })
	require.Eventually(t, server.Connected, 10*time.Second, time.Millisecond)
	return s
}

// logger logs to the test, until it ends.
func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func socketPath(t *testing.T) string { return filepath.Join(t.TempDir(), "s") }

// pair returns a server and a client of a dataplane.
func pair(t *testing.T, dp dataplane.Dataplane) *wire.Server {
	path := socketPath(t)
	server, _ := serve(t, path, wire.ServerConfig{})
	connect(t, server, path, dp)
	return server
}

func endpointKey(name string) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: name}
}

// world returns a state in sync with endpoints.
func world(names ...string) dptest.State {
	s := dptest.NewState()
	s.InSync = true
	for _, name := range names {
		s.Endpoints[endpointKey(name)] = &dataplane.Endpoint{Interface: "if-" + name}
	}
	return s
}

// send applies the batch between two states.
func send(t *testing.T, server *wire.Server, from, to dptest.State) error {
	t.Helper()
	return server.Apply(t.Context(), dptest.Transition(from, to))
}

// tamper is a proxy before a socket, which can end connections.
type tamper struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (p *tamper) dial(path string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := wire.Dial(path)(ctx)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.conns = append(p.conns, conn)
		return conn, nil
	}
}

// cut ends all connections.
func (p *tamper) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
}
