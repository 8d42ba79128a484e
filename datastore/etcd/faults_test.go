// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

// silentWatcher begins one watch that never sends events.
type silentWatcher struct {
	clientv3.Watcher
	silent bool
}

func (d *silentWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	if !d.silent {
		return d.Watcher.Watch(ctx, key, opts...)
	}
	d.silent = false
	events := make(chan clientv3.WatchResponse, 1)
	events <- clientv3.WatchResponse{Created: true, Header: etcdserverpb.ResponseHeader{Revision: 1 << 40}}
	return events
}

// A watch that does not send a change is detected.
func TestSourceSilentWatch(t *testing.T) {
	srv, _, store := newStoreOn(t)
	raw := rawClient(t, srv.url)
	raw.Watcher = &silentWatcher{Watcher: raw.Watcher, silent: true}
	r := newReceiver()
	cfg := quick(newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"}), nil)
	cfg.Recheck = time.Millisecond
	source, _ := start(t, cfg, r)
	r.waitInSync(t)
	update(t, store, set("a", "1"))
	r.wait(t, "a=1")
	require.Equal(t, uint64(2), source.Stats().Lists)
	require.Equal(t, uint64(1), source.Stats().Failures[etcd.FailureMissed])
	update(t, store, set("a", "2"))
	r.wait(t, "a=2")
	require.Equal(t, uint64(2), source.Stats().Lists)
}

// The heartbeat detects that the store was initialised again, even if the watch does not report it.
func TestSourceSilentWatchOfNewMark(t *testing.T) {
	srv, _, store := newStoreOn(t)
	raw := rawClient(t, srv.url)
	raw.Watcher = &silentWatcher{Watcher: raw.Watcher, silent: true}
	r := newReceiver()
	source, _ := start(t, quick(newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"}), nil), r)
	r.waitInSync(t)
	_, err := raw.Put(t.Context(), "/wayleave/test/state/.cluster", `{"schema":1}`)
	require.NoError(t, err)
	update(t, store, set("a", "1"))
	r.wait(t, "a=1")
	require.Equal(t, uint64(1), source.Stats().Failures[etcd.FailureHistory])
}

// movedWatcher changes the cluster id in one response of a watch.
type movedWatcher struct {
	clientv3.Watcher
	moved atomic.Bool
}

func (m *movedWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	in, out := m.Watcher.Watch(ctx, key, opts...), make(chan clientv3.WatchResponse)
	go func() {
		defer close(out)
		for response := range in {
			if m.moved.CompareAndSwap(true, false) {
				response.Header.ClusterId++
			}
			select {
			case out <- response:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// The client may resume a watch at another cluster with the same address. Its changes are sent only
// after a list.
func TestSourceWatchOfOtherCluster(t *testing.T) {
	srv, _, store := newStoreOn(t)
	raw := rawClient(t, srv.url)
	watcher := &movedWatcher{Watcher: raw.Watcher}
	raw.Watcher = watcher
	r := newReceiver()
	source, _ := start(t, quick(newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"}), nil), r)
	r.waitInSync(t)
	watcher.moved.Store(true)
	update(t, store, set("a", "1"))
	r.wait(t, "a=1")
	require.Equal(t, uint64(1), source.Stats().Failures[etcd.FailureHistory])
	require.Equal(t, uint64(2), source.Stats().Lists)
}

// After failures of the connection and changes of the history, the receiver has the state of the
// store. Objects that always existed were never absent.
func TestSourceFaults(t *testing.T) {
	t.Run("direct", func(t *testing.T) { testFaults(t, func(_ testing.TB, server string) string { return server }) })
	t.Run("proxy", func(t *testing.T) { testFaults(t, newProxy) })
}

// testFaults connects a Source through a relay whose connections fail repeatedly.
func testFaults(t *testing.T, through func(t testing.TB, server string) string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	srv, _, store := newStoreOn(t)
	relay := newRelay(t, through(t, srv.url))
	raw := rawClient(t, srv.url)
	fill(t, store, 30, "0") // p0000 to p0029: changed, never deleted
	w, r := &witness{}, newReceiver()
	cfg := quick(
		newClientOf(t, etcd.Config{Endpoints: []string{relay.url}, Cluster: "test", RequestTimeout: time.Second}), w,
	)
	cfg.PageSize, cfg.MaxPending = 7, 25
	source, _ := start(t, cfg, r)
	r.waitInSync(t)
	r.take()
	revision := etcd.Revision(0)
	release := func() {}
	for step := range 600 {
		var w etcd.Write
		switch name := fmt.Sprint("x", rng.IntN(20)); rng.IntN(3) {
		case 0:
			w.Update = set(fmt.Sprintf("p%04d", rng.IntN(30)), fmt.Sprint(step))
		case 1:
			w.Update = set(name, fmt.Sprint(rng.IntN(3)))
		case 2:
			w.Update = unset(name)
		}
		var err error
		revision, err = store.Commit(t.Context(), []etcd.Write{w})
		require.NoError(t, err)
		switch rng.IntN(40) {
		case 0:
			relay.cut()
		case 1:
			release()
			release = relay.hold()
		case 2:
			release()
		case 3:
			_, err := raw.Compact(t.Context(), int64(revision))
			if err != nil {
				require.ErrorIs(t, err, rpctypes.ErrCompacted)
			}
		case 4:
			require.NoError(t, store.Suspend(t.Context()))
		case 5:
			require.NoError(t, store.Init(t.Context()))
		}
	}
	release()
	require.NoError(t, store.Init(t.Context()))
	list, err := store.List(t.Context(), etcd.Query{})
	require.NoError(t, err)
	var want []string
	for _, o := range list.Objects {
		p := o.Resource.(*policy.Profile)
		want = append(want, p.Name+"="+p.LabelsToApply["v"])
	}
	r.wait(t, strings.Join(want, " "))
	w.await(t, "the revision", func() bool { return source.Stats().Delivered >= revision })
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.removed)) {
		require.Equal(t, byte('x'), name[0], "%s always existed, but was removed", name)
	}
	require.LessOrEqual(t, r.largest, 25+7+1)
}

// A full database refuses writes, but can be read.
func TestFullDatabaseIsRead(t *testing.T) {
	srv := newServer(t, func(cfg *embed.Config) { cfg.QuotaBackendBytes = 2 << 20 })
	client := newClient(t, srv.url)
	store := newStore(t, client)
	require.NoError(t, store.Init(t.Context()))
	update(t, store, set("a", "1"))
	raw := rawClient(t, srv.url)
	var full error
	for i := 0; full == nil; i++ {
		require.Less(t, i, 1000)
		_, full = raw.Put(t.Context(), "/ballast", strings.Repeat("x", 100<<10))
	}
	require.ErrorIs(t, full, rpctypes.ErrNoSpace)
	w, r := &witness{}, newReceiver()
	start(t, quick(client, w), r)
	r.wait(t, "a=1")
	r.waitInSync(t)
	_, err := store.Put(t.Context(), profile("a", "2"), etcd.Any)
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)

	gone, err := raw.Delete(t.Context(), "/ballast")
	require.NoError(t, err)
	_, err = raw.Compact(t.Context(), gone.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	_, err = raw.Defragment(t.Context(), srv.url)
	require.NoError(t, err)
	_, err = raw.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	require.NoError(t, err)
	update(t, store, set("a", "2"))
	r.wait(t, "a=2")
}
