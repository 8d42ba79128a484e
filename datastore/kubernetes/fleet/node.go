// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/datastore/kubernetes"
)

// server is the server to which the nodes connect: an API server, or an etcd if Etcd is set.
type server struct {
	Host, Token, User string
	CA                []byte
	Groups, Omit      []string
	Etcd              string
}

// node is one node: a source with its own connection, a graph and a Mirror.
type node struct {
	name   string
	meter  *meter
	mirror *dptest.Mirror
	// complete is when the Mirror was in sync for the first time, in nanoseconds since 1970; 0
	// before.
	complete atomic.Int64
	source   datastore.Source
	close    func()
}

// newNode returns a node that does not run yet. applied is called after each batch.
func newNode(name string, s server, m *meter) (*node, error) {
	n := &node{name: name, meter: m, mirror: dptest.NewMirror()}
	var err error
	if s.Etcd != "" {
		err = n.useEtcd(s)
	} else {
		err = n.useAPI(s)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

// run runs the node until ctx is done. It returns another error if a part fails.
func (n *node) run(ctx context.Context, applied func(dataplane.Batch, time.Time)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer n.close()
	defer cancel(nil)
	graph, err := calcgraph.New(calcgraph.Config{Node: n.name})
	if err != nil {
		return err
	}
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{
		Graph: graph,
		Out: func(ctx context.Context, b dataplane.Batch) error {
			if err := n.mirror.Apply(ctx, b); err != nil {
				return err
			}
			now := time.Now()
			if b.CarriesInSync() {
				n.complete.Store(now.UnixNano())
			}
			applied(b, now)
			return nil
		},
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := runner.Run(ctx)
		cancel(err)
		ended <- err
	}()
	err = n.source.Run(ctx, runner)
	cancel(err)
	<-ended
	return fmt.Errorf("%s: %w", n.name, context.Cause(ctx))
}

// qps and burst limit the requests of a client. The reference agent has the same limits.
const qps, burst = 20, 60

// useAPI makes the node read from an API server. Its clients are configured as in the reference
// agent: protobuf for the kinds of Kubernetes, JSON for other kinds, and one connection for both.
func (n *node) useAPI(s server) error {
	cfg := &rest.Config{
		Host: s.Host, BearerToken: s.Token, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA},
		Impersonate: rest.ImpersonationConfig{UserName: s.User, Groups: s.Groups},
		QPS:         qps, Burst: burst, UserAgent: n.name, Dial: n.meter.dial,
		WrapTransport: func(t http.RoundTripper) http.RoundTripper { return meteredTransport{t, n.meter} },
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	d, err := dynamic.NewForConfigAndClient(cfg, client)
	if err != nil {
		return err
	}
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	c, err := clientset.NewForConfigAndClient(cfg, client)
	if err != nil {
		return err
	}
	n.close = client.CloseIdleConnections
	n.source, err = kubernetes.New(kubernetes.Config{Client: c, Dynamic: d, Node: n.name, Omit: s.Omit})
	return err
}

// useEtcd makes the node read from etcd, with a client that is configured as that of
// etcd.NewClient.
func (n *node) useEtcd(s server) error {
	raw, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.Etcd}, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(n.dialEtcd),
			grpc.WithChainStreamInterceptor(n.meter.stream), grpc.WithChainUnaryInterceptor(n.meter.unary),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{
					BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second,
				},
				MinConnectTimeout: 5 * time.Second,
			}),
		},
	})
	if err != nil {
		return err
	}
	n.close = func() { _ = raw.Close() }
	client, err := etcd.NewClient(etcd.Config{Etcd: raw})
	if err != nil {
		return err
	}
	n.source, err = etcd.NewSource(etcd.SourceConfig{Client: client})
	return err
}

// dialEtcd opens a connection to etcd whose bytes are counted.
func (n *node) dialEtcd(ctx context.Context, address string) (net.Conn, error) {
	return n.meter.dial(ctx, "tcp", address)
}
