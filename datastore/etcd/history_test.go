// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/datastore/etcd"
)

// swappedKV answers the second page of a list, once, as another database at the same address does that has nothing.
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

// A list whose pages are of two histories is no list: neither is the state complete by it, nor is gone what was in neither part.
func TestSourceOtherHistoryWithinAList(t *testing.T) {
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

// laggingWatcher begins watches, once, at a member that is a revision behind the others.
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

// A member that is behind the one before is no other history: the watch is good, and nothing is listed again.
func TestSourceMemberIsBehind(t *testing.T) {
	srv, _, store := newStoreOn(t)
	fill(t, store, 50, "1")
	raw := rawClient(t, srv.url)
	raw.Watcher = &laggingWatcher{Watcher: raw.Watcher}
	r := newReceiver()
	source, _ := start(t, quick(newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"}), nil), r)
	r.waitInSync(t)
	update(t, store, set("a", "1"))
	eventually(t, "the change", func() bool { return r.value("a") == "1" })
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
