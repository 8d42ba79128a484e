// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/wayleave/wayleave/datastore/etcd"
)

// waitTimeout limits how long a test waits for an event.
const waitTimeout = 60 * time.Second

// server is an etcd in this process. It keeps its port over stop and start, and its data unless
// they are removed.
type server struct {
	config *embed.Config
	etcd   *embed.Etcd
	url    string
}

func newServer(t testing.TB, change ...func(*embed.Config)) *server {
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.UnsafeNoFsync = true // tests of crashes use processes
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.BcryptCost = 4 // the minimum: these passwords protect nothing
	client, peer := freeURL(t), freeURL(t)
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	for _, f := range change {
		f(cfg)
	}
	s := &server{config: cfg, url: cfg.ListenClientUrls[0].String()}
	s.start(t)
	t.Cleanup(s.stop)
	return s
}

func (s *server) start(t testing.TB) {
	t.Helper()
	var err error
	s.etcd, err = embed.StartEtcd(s.config)
	require.NoError(t, err)
	select {
	case <-s.etcd.Server.ReadyNotify():
	case <-time.After(waitTimeout):
		require.Fail(t, "etcd does not start")
	}
}

func (s *server) stop() {
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
}

// loopbackAddress returns a random loopback address.
func loopbackAddress() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}

// freePort returns an address and a port on which no socket listens. The address is random, so that
// no other socket takes the port before the server starts or while it is stopped.
func freePort(t testing.TB) string { return freePortOf(t, loopbackAddress()) }

func freePortOf(t testing.TB, host string) string {
	l, err := net.Listen("tcp", host+":0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func freeURL(t testing.TB) url.URL { return url.URL{Scheme: "http", Host: freePort(t)} }

// client returns a client of cluster "test" on the endpoints.
func newClient(t testing.TB, endpoints ...string) *etcd.Client {
	t.Helper()
	return newClientOf(t, etcd.Config{Endpoints: endpoints, Cluster: "test"})
}

func newClientOf(t testing.TB, cfg etcd.Config) *etcd.Client {
	t.Helper()
	c, err := etcd.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// rawClient returns a client without a prefix, like etcdctl.
func rawClient(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newStore(t testing.TB, c *etcd.Client) *etcd.Store {
	t.Helper()
	s, err := etcd.NewStore(etcd.StoreConfig{Client: c})
	require.NoError(t, err)
	return s
}

// newStoreOn returns an initialised store on a new server.
func newStoreOn(t testing.TB) (*server, *etcd.Client, *etcd.Store) {
	t.Helper()
	srv := newServer(t)
	client := newClient(t, srv.url)
	store := newStore(t, client)
	require.NoError(t, store.Init(t.Context()))
	return srv, client, store
}

// relay forwards connections between a client and a server, and can interrupt them.
type relay struct {
	url      string
	target   string
	listener net.Listener

	gate  sync.RWMutex // locked for writing while nothing is forwarded
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

func newRelay(t testing.TB, target string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u, err := url.Parse(target)
	require.NoError(t, err)
	r := &relay{url: "http://" + l.Addr().String(), target: u.Host, listener: l, conns: map[net.Conn]struct{}{}}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.cut()
		r.wg.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		r.mu.Lock()
		r.conns[in], r.conns[out] = struct{}{}, struct{}{}
		r.mu.Unlock()
		r.wg.Go(func() { r.pump(in, out) })
		r.wg.Go(func() { r.pump(out, in) })
	}
}

func (r *relay) pump(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		r.gate.RLock()
		_, writeErr := to.Write(buffer[:n])
		r.gate.RUnlock()
		if err != nil || writeErr != nil {
			break
		}
	}
	r.mu.Lock()
	delete(r.conns, from)
	delete(r.conns, to)
	r.mu.Unlock()
	_, _ = from.Close(), to.Close()
}

// cut closes all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
}

// hold stops forwarding until the returned function is called.
func (r *relay) hold() (release func()) {
	r.gate.Lock()
	return sync.OnceFunc(r.gate.Unlock)
}

var _ io.Closer = (*etcd.Client)(nil)

// changes notifies waiting goroutines of changes. The zero value is ready to use.
type changes struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next change; nil if no goroutine waits
}

func (c *changes) notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

func (c *changes) channel() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// await waits until holds returns true. It checks again after each change.
func (c *changes) await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for timeout := time.After(waitTimeout); ; {
		next := c.channel()
		if holds() {
			return
		}
		select {
		case <-next:
		case <-timeout:
			require.Fail(t, "timeout: "+what)
		}
	}
}

// awaitStored waits until holds reports true. Only a change of a key in the server may change its
// result.
func awaitStored(t testing.TB, raw *clientv3.Client, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	changes := raw.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	for first := true; first || !holds(); first = false {
		_, ok := <-changes // the first message means that the watch has begun
		require.True(t, ok, "the watch ended: %s", what)
	}
}

// eventually polls until holds returns true. It is for states without an event: whether a server
// answers, which one is the leader, and counters of a Source without a hook.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); !holds(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "timeout: %s", what)
	}
}

// background runs a function until the test ends, or until the returned function is called, which
// returns its error.
func background(t testing.TB, run func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(waitTimeout):
			require.Fail(t, "it does not return")
			return nil
		}
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}
