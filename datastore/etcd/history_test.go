// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc/metadata"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

// swappedKV returns the second page of one list from an empty database.
type swappedKV struct {
	clientv3.KV
	pages atomic.Int32
}

func (s *swappedKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	answer, err := s.KV.Get(ctx, key, opts...)
	if err == nil && clientv3.OpGet(key, opts...).Limit() > 0 && s.pages.Add(1) == 2 {
		answer.Header.RaftTerm--
		answer.Kvs, answer.More = nil, false
	}
	return answer, err
}

// If the pages of a list are from two histories, the list is discarded: the state is not complete,
// and nothing is deleted.
func TestListOfTwoHistoriesIsDiscarded(t *testing.T) {
	srv, _, store := newStoreOn(t)
	fill(t, store, 50, "1")
	raw := rawClient(t, srv.url)
	raw.KV = &swappedKV{KV: raw.KV}
	w, r := &witness{}, newReceiver()
	cfg := quick(newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"}), w)
	cfg.PageSize = 10
	source, _ := start(t, cfg, r)
	r.waitInSync(t)
	require.Equal(t, 50, r.count())
	require.Empty(t, r.removed)
	require.Equal(t, uint64(1), source.Stats().Failures[etcd.FailureHistory])
}

// laggingWatcher begins one watch at a member that is a revision behind the others.
type laggingWatcher struct {
	clientv3.Watcher
	lagged bool
}

func (l *laggingWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	in := l.Watcher.Watch(ctx, key, opts...)
	if l.lagged {
		return in
	}
	l.lagged = true
	out := make(chan clientv3.WatchResponse)
	go func() {
		defer close(out)
		for response := range in {
			if response.Created {
				response.Header.Revision--
			}
			select {
			case out <- response:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

// A member that is behind has the same history: the watch continues, and the Source does not list
// again.
func TestWatchOfLaggingMemberContinues(t *testing.T) {
	srv, _, store := newStoreOn(t)
	fill(t, store, 50, "1")
	raw := rawClient(t, srv.url)
	raw.Watcher = &laggingWatcher{Watcher: raw.Watcher}
	r := newReceiver()
	source, _ := start(t, quick(newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"}), nil), r)
	r.waitInSync(t)
	update(t, store, set("a", "1"))
	r.await(t, "the change", func() bool { return r.value("a") == "1" })
	require.Equal(t, uint64(1), source.Stats().Lists)
	require.Zero(t, source.Stats().Resyncs)
}

// A key that sorts before the mark does not hide it.
func TestSourceStrayKeyBeforeTheMark(t *testing.T) {
	srv, client, store := newStoreOn(t)
	update(t, store, set("a", "1"))
	_, err := rawClient(t, srv.url).Put(t.Context(), "/wayleave/test/state/!stray", "x")
	require.NoError(t, err)
	r := newReceiver()
	start(t, quick(client, nil), r)
	r.waitInSync(t)
	require.Equal(t, "a=1", r.text())
}

// A Source without changes receives the revision of the store. So its watch can continue from there
// after a compaction.
func TestWatchContinuesAfterCompaction(t *testing.T) {
	srv := newServer(t, func(cfg *embed.Config) { cfg.WatchProgressNotifyInterval = 100 * time.Millisecond })
	relay := newRelay(t, srv.url)
	store := newStore(t, newClient(t, srv.url))
	require.NoError(t, store.Init(t.Context()))
	update(t, store, set("a", "1"))
	w, r := &witness{}, newReceiver()
	source, _ := start(t, quick(newClient(t, relay.url), w), r)
	r.wait(t, "a=1")
	raw := rawClient(t, srv.url)
	elsewhere, err := raw.Put(t.Context(), "/elsewhere", "1")
	require.NoError(t, err)
	w.await(t, "the revision", func() bool {
		return source.Stats().Delivered >= etcd.Revision(elsewhere.Header.Revision)
	})
	_, err = raw.Compact(t.Context(), elsewhere.Header.Revision)
	require.NoError(t, err)
	relay.cut()
	update(t, store, set("a", "2"))
	r.wait(t, "a=2")
	require.Equal(t, uint64(1), source.Stats().Lists)
}

// leaderWatcher records whether watches require a member that has a leader.
type leaderWatcher struct {
	clientv3.Watcher
	requires chan bool
}

func (l *leaderWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	md, _ := metadata.FromOutgoingContext(ctx)
	l.requires <- slices.Equal(md.Get(rpctypes.MetadataRequireLeaderKey), []string{rpctypes.MetadataHasLeader})
	return l.Watcher.Watch(ctx, key, opts...)
}

// A Source does not watch a member that is cut off from the others.
func TestSourceRequiresALeader(t *testing.T) {
	srv, _, _ := newStoreOn(t)
	raw := rawClient(t, srv.url)
	watcher := &leaderWatcher{Watcher: raw.Watcher, requires: make(chan bool, 10)}
	raw.Watcher = watcher
	start(t, quick(newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"}), nil), newReceiver())
	require.True(t, <-watcher.requires)
}

// A Source without a Reporter detects a restored backup by the newest key that it read. It does so
// although the revision and the raft term are not lower than before.
func TestRestoreIsDetectedByNewestKey(t *testing.T) {
	for name, change := range map[string]policy.Update{"a change": set("a", "2"), "a deletion": unset("a")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, _, store := newStoreOn(t)
			update(t, store, set("a", "1"), set("b", "1"))
			through := newRelay(t, srv.url)
			r := newReceiver()
			client := newClientOf(t, etcd.Config{
				Endpoints: []string{through.url}, Cluster: "test", RequestTimeout: time.Second,
			})
			source, _ := start(t, quick(client, nil), r)
			r.waitInSync(t)

			srv.stop()
			backup := t.TempDir()
			require.NoError(t, os.CopyFS(backup, os.DirFS(srv.config.Dir)))
			srv.start(t)
			store = newStore(t, newClient(t, srv.url))
			update(t, store, change)
			r.await(t, "the change", func() bool { return r.value("a") != "1" })

			srv.stop()
			release := through.hold()
			through.cut()
			srv.config.Dir = backup
			srv.start(t)
			store = newStore(t, newClient(t, srv.url))
			for i := range 20 {
				update(t, store, set("c", fmt.Sprint(i)))
			}
			release()
			r.wait(t, "a=1 b=1 c=19")
			require.NotZero(t, source.Stats().Failures[etcd.FailureHistory])
		})
	}
}
