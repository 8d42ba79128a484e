// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/wayleave/wayleave/datastore/etcd"
)

// newProxy starts etcd's proxy in front of a server, and returns its URL.
func newProxy(t testing.TB, target string) string {
	ctx, cancel := context.WithCancel(context.Background())
	upstream, err := clientv3.New(clientv3.Config{Endpoints: []string{target}, Logger: zap.NewNop(), Context: ctx})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	kv, _ := grpcproxy.NewKvProxy(upstream)
	watch, watchDone := grpcproxy.NewWatchProxy(ctx, zap.NewNop(), upstream)
	lease, leaseDone := grpcproxy.NewLeaseProxy(ctx, upstream)
	server := grpc.NewServer()
	etcdserverpb.RegisterKVServer(server, kv)
	etcdserverpb.RegisterWatchServer(server, watch)
	etcdserverpb.RegisterLeaseServer(server, lease)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		cancel()
		<-done
		<-watchDone
		<-leaseDone
		_ = upstream.Close()
	})
	return "http://" + listener.Addr().String()
}

// watchers returns the number of watches of the servers in this process.
func watchers(t testing.TB) int {
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "etcd_debugging_mvcc_watcher_total" {
			return int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	require.Fail(t, "the servers have no metric of watches")
	return 0
}

// Fifty nodes behind a proxy cause only a few watches at the server, and all of them receive
// everything.
func TestProxyFanOut(t *testing.T) {
	const nodes, objects = 50, 500
	srv, _, store := newStoreOn(t)
	fill(t, store, objects, "1")
	proxy := newProxy(t, srv.url)
	before := watchers(t)
	var receivers []*receiver
	var sources []*etcd.Source
	var witnesses []*witness
	for range nodes {
		w, r := &witness{}, newReceiver()
		source, _ := start(t, quick(newClient(t, proxy), w), r)
		receivers, sources, witnesses = append(receivers, r), append(sources, source), append(witnesses, w)
	}
	for _, r := range receivers {
		r.waitInSync(t)
		require.Equal(t, objects, r.count())
	}
	var last etcd.Revision
	for i := range 200 {
		var err error
		last, err = store.Put(t.Context(), profile(fmt.Sprintf("p%04d", i%50), fmt.Sprint("v", i)), etcd.Any)
		require.NoError(t, err)
	}
	for i, r := range receivers {
		witnesses[i].await(t, "the last change", func() bool { return sources[i].Stats().Delivered >= last })
		require.Equal(t, receivers[0].text(), r.text())
		require.Empty(t, r.removed)
	}
	require.Equal(t, "v199", receivers[0].value("p0049"))
	require.LessOrEqual(t, watchers(t)-before, 10, "the proxy merges watches of clients, and has two of its own")

	// Reports pass the proxy, too.
	n1, _ := newReporter(t, newClient(t, proxy), "n1")
	n1.Set(etcd.Report{Revision: last, History: readingOf(t, newClient(t, proxy)), InSync: true})
	awaitStored(t, rawClient(t, srv.url), "the report", func() bool {
		r, err := store.AppliedAt(t.Context(), last)
		require.NoError(t, err)
		return r.Complete()
	})
}

// Behind a proxy, a Source survives the same failures as without: a restart of the server, a
// compaction, a missing mark.
func TestProxyFaults(t *testing.T) {
	srv, _, store := newStoreOn(t)
	update(t, store, set("a", "1"), set("b", "1"), set("gone", "1"))
	relay := newRelay(t, newProxy(t, srv.url))
	w, r := &witness{}, newReceiver()
	source, _ := start(t, quick(newClientOf(t,
		etcd.Config{Endpoints: []string{relay.url}, Cluster: "test", RequestTimeout: time.Second}), w), r)
	r.waitInSync(t)
	r.take()

	srv.stop()
	w.waitLost(t, "stopped", func(error) bool { return true })
	w.clear()
	srv.start(t)
	store = newStore(t, newClient(t, srv.url))
	update(t, store, set("a", "2"))
	r.wait(t, "a=2 b=1 gone=1")
	require.Equal(t, []string{"a=2"}, r.take())
	w.await(t, "found", w.isFound)

	release := relay.hold()
	update(t, store, set("a", "3"), unset("gone"), set("flap", "1"))
	revision, err := store.Delete(t.Context(), profile("flap", "").Key(), etcd.Any)
	require.NoError(t, err)
	_, err = rawClient(t, srv.url).Compact(t.Context(), int64(revision))
	require.NoError(t, err)
	relay.cut()
	release()
	r.wait(t, "a=3 b=1")
	require.Equal(t, "a=3 -gone", order(r.take()), "differences only")
	w.await(t, "the revision", func() bool { return source.Stats().Delivered >= revision })

	require.NoError(t, store.Suspend(t.Context()))
	w.waitLost(t, "suspended", func(err error) bool { return errors.Is(err, etcd.ErrNotInitialised) })
	update(t, store, unset("a"))
	require.Equal(t, "a=3 b=1", r.text())
	require.NoError(t, store.Init(t.Context()))
	r.wait(t, "b=1")
}
