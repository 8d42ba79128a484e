// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

func TestSourceListsThenWatches(t *testing.T) {
	srv, client, store := newStoreOn(t)
	fill(t, store, 250, "1")
	w, r := &witness{}, newReceiver()
	cfg := quick(client, w)
	cfg.PageSize = 30
	source, stop := start(t, cfg, r)
	r.waitInSync(t)
	require.Equal(t, 250, r.count())
	require.Contains(t, r.text(), "p0000=1 p0001=1 ")
	log := r.take()
	require.Equal(t, "in sync", log[len(log)-1])

	// The changes of one transaction arrive in one call. Writes that change nothing are not sent.
	update(t, store, set("p0000", "2"), unset("p0001"), set("q", "1"))
	r.await(t, "the change", func() bool { return r.value("q") == "1" })
	require.Equal(t, []string{"p0000=2 -p0001 q=1"}, r.take())
	update(t, store, set("p0000", "2"), unset("p0001"))
	raw := rawClient(t, srv.url)
	key := "/wayleave/test/state/Profile//q"
	got, err := raw.Get(t.Context(), key)
	require.NoError(t, err)
	_, err = raw.Put(t.Context(), key, string(got.Kvs[0].Value)) // another revision of the same
	require.NoError(t, err)
	last, err := store.Put(t.Context(), profile("q", "2"), etcd.Any)
	require.NoError(t, err)
	r.await(t, "the last change", func() bool { return r.value("q") == "2" })
	require.Equal(t, []string{"q=2"}, r.take())

	w.await(t, "the revision", func() bool { return source.Stats().Delivered == last })
	stats := source.Stats()
	require.Equal(t, uint64(1), stats.Lists)
	require.Equal(t, 250, stats.Objects)
	require.Equal(t, last, stats.Read)
	require.Equal(t, uint64(5), stats.Events)
	require.NotZero(t, stats.Connections)
	require.Zero(t, stats.Resyncs+stats.Rejected)
	require.Len(t, stats.Failures, len(etcd.FailureKinds()))
	stats.Failures[etcd.FailureMissed]++ // a copy
	for kind, n := range source.Stats().Failures {
		require.Zero(t, n, kind)
	}
	require.True(t, stats.InSync)
	require.True(t, stats.Connected)
	require.ErrorIs(t, source.Run(t.Context(), r), etcd.ErrRunning)
	require.ErrorIs(t, stop(), context.Canceled)
	require.Empty(t, w.lost)
	require.Empty(t, w.rejected)
}

// Without the mark, a new node waits, and other nodes keep their objects.
func TestSourceWaitsForInit(t *testing.T) {
	srv := newServer(t)
	client := newClient(t, srv.url)
	store := newStore(t, client)
	w, r := &witness{}, newReceiver()
	source, _ := start(t, quick(client, w), r)
	notInitialised := func(err error) bool { return errors.Is(err, etcd.ErrNotInitialised) }
	w.waitLost(t, "not initialised", notInitialised)
	update(t, store, set("a", "1"), set("b", "1"))
	w.clear()
	w.waitLost(t, "still not", notInitialised)
	require.False(t, r.isInSync())
	require.Empty(t, r.take())
	require.NoError(t, store.Init(t.Context()))
	require.NoError(t, store.Init(t.Context()), "a second Init has no effect")
	r.waitInSync(t)
	require.Equal(t, []string{"a=1 b=1", "in sync"}, r.take())

	// All keys are deleted, for example by a mistake of an operator.
	raw := rawClient(t, srv.url)
	w.clear()
	_, err := raw.Delete(t.Context(), "/wayleave/test/", clientv3.WithPrefix())
	require.NoError(t, err)
	w.waitLost(t, "emptied", notInitialised)
	require.False(t, source.Stats().Connected)
	update(t, store, set("a", "1"))
	update(t, store, set("c", "1"))
	w.clear()
	w.waitLost(t, "half full", notInitialised)
	require.Empty(t, r.take())
	require.NoError(t, store.Init(t.Context()))
	r.wait(t, "a=1 c=1")
	require.Equal(t, "-b c=1", strings.Join(r.take(), " "))
	w.await(t, "found", w.isFound)
	require.True(t, source.Stats().Connected)

	// With the mark, an empty store is a complete, empty state.
	w.clear()
	_, err = raw.Delete(t.Context(), "/wayleave/test/state/A", clientv3.WithRange("/wayleave/test/state0"))
	require.NoError(t, err)
	r.wait(t, "")
	require.Equal(t, []string{"-a -c"}, r.take())

	require.NoError(t, store.Suspend(t.Context()))
	w.waitLost(t, "suspended", notInitialised)
}

func TestSourceWatchIsCompacted(t *testing.T) {
	srv, _, store := newStoreOn(t)
	relay := newRelay(t, srv.url)
	update(t, store, set("a", "1"), set("b", "1"), set("gone", "1"), set("same", "1"))
	w, r := &witness{}, newReceiver()
	source, _ := start(t, quick(newClient(t, relay.url), w), r)
	r.waitInSync(t)
	r.take()
	release := relay.hold()
	update(t, store, set("a", "2"), unset("gone"), set("flap", "1"))
	update(t, store, unset("flap"), set("new", "1"), unset("same"))
	revision, err := store.Put(t.Context(), profile("same", "1"), etcd.Absent)
	require.NoError(t, err)
	_, err = rawClient(t, srv.url).Compact(t.Context(), int64(revision))
	require.NoError(t, err)
	relay.cut()
	release()
	r.wait(t, "a=2 b=1 new=1 same=1")
	require.Equal(t, "a=2 new=1 -gone", order(r.take()), "differences only")
	w.await(t, "the revision", func() bool { return source.Stats().Delivered == revision })
	stats := source.Stats()
	require.Equal(t, uint64(2), stats.Lists)
	require.Equal(t, uint64(1), stats.Resyncs)
	require.Equal(t, uint64(1), stats.Failures[etcd.FailureCompacted])
}

// order joins batches: first the objects that were set, then the deleted ones.
func order(log []string) string {
	var set, gone []string
	for _, word := range strings.Fields(strings.Join(log, " ")) {
		if word[0] == '-' {
			gone = append(gone, word)
		} else {
			set = append(set, word)
		}
	}
	return strings.Join(append(set, gone...), " ")
}

// A slow receiver stops the list, whose revision is compacted meanwhile.
func TestSourceListIsCompacted(t *testing.T) {
	srv, client, store := newStoreOn(t)
	fill(t, store, 200, "1")
	w, r := &witness{}, newReceiver()
	r.gate = make(chan struct{})
	cfg := quick(client, w)
	cfg.PageSize, cfg.MaxPending = 10, 40
	source, _ := start(t, cfg, r)
	r.gate <- struct{}{}
	eventually(t, "the list to stop", func() bool { return source.Stats().Pending >= 40 })
	update(t, store, set("p0000", "2"), unset("p0001"))
	revision, err := store.Put(t.Context(), profile("p0199", "2"), etcd.Any)
	require.NoError(t, err)
	_, err = rawClient(t, srv.url).Compact(t.Context(), int64(revision))
	require.NoError(t, err)
	require.False(t, r.isInSync())
	close(r.gate)
	r.waitInSync(t)
	require.Equal(t, 199, r.count())
	require.Equal(t, "2", r.value("p0000"))
	require.Equal(t, "2", r.value("p0199"))
	require.LessOrEqual(t, r.largest, 50)
	require.GreaterOrEqual(t, source.Stats().Lists, uint64(2))
	require.Equal(t, map[string]int{"p0001": r.removed["p0001"]}, r.removed, "nothing else is removed in between")
}

// While the receiver blocks, the watch ends, and the number of pending changes is limited.
func TestSourceBackPressure(t *testing.T) {
	_, client, store := newStoreOn(t)
	update(t, store, set("a", "0"))
	w, r := &witness{}, newReceiver()
	r.gate = make(chan struct{}, 1)
	r.gate <- struct{}{}
	cfg := quick(client, w)
	cfg.MaxPending = 20
	source, _ := start(t, cfg, r)
	r.waitInSync(t)
	r.take()
	watches := source.Stats().Watches
	for i := range 100 { // of one object: they are merged
		update(t, store, set("a", fmt.Sprint(i)))
	}
	eventually(t, "them to wait", func() bool { return source.Stats().Pending <= 1 })
	fill(t, store, 1000, "1")
	eventually(t, "it to be full", func() bool { return source.Stats().Pending >= 20 })
	require.LessOrEqual(t, source.Stats().Pending, 20+etcd.MaxWrites)
	behind := source.Stats().Behind
	require.Positive(t, behind)
	eventually(t, "time to pass", func() bool { return source.Stats().Behind > behind })
	require.Greater(t, source.Stats().Read, source.Stats().Delivered)
	delivered := source.Stats().Delivered
	close(r.gate)
	r.await(t, "all of it", func() bool { return r.count() == 1001 })
	require.Equal(t, "99", r.value("a"))
	require.LessOrEqual(t, r.largest, 20+etcd.MaxWrites)
	w.await(t, "the revision", func() bool { return source.Stats().Delivered > delivered })
	eventually(t, "nothing to wait", func() bool { return source.Stats().Behind == 0 })
	require.Greater(t, source.Stats().Watches, watches)
	require.Equal(t, uint64(1), source.Stats().Lists, "the watch continued from its last revision")
	require.Empty(t, w.lost)
}

func TestSourceServerRestarts(t *testing.T) {
	srv, client, store := newStoreOn(t)
	update(t, store, set("a", "1"), set("b", "1"))
	w, r := &witness{}, newReceiver()
	cfg := quick(
		newClientOf(t, etcd.Config{Endpoints: []string{srv.url}, Cluster: "test", RequestTimeout: time.Second}), w,
	)
	source, _ := start(t, cfg, r)
	r.waitInSync(t)
	r.take()
	srv.stop()
	w.waitLost(t, "stopped", func(error) bool { return true })
	require.False(t, source.Stats().Connected)
	require.Error(t, source.Stats().LastError)
	require.NotZero(t, source.Stats().Failures[etcd.FailureUnreachable])
	w.clear()
	srv.start(t)
	w.await(t, "found", w.isFound)
	require.Empty(t, r.take(), "nothing has changed")
	update(t, newStore(t, client), set("b", "2"))
	r.wait(t, "a=1 b=2")
	require.Equal(t, []string{"b=2"}, r.take())
	require.Equal(t, uint64(1), source.Stats().Lists)
}

// After a database is lost, the state stays until Init. The Source then sends only the differences,
// although the revision is lower.
func TestLostDatabaseRemovesNoObject(t *testing.T) {
	srv, client, store := newStoreOn(t)
	fill(t, store, 300, "1")
	for i := range 20 {
		update(t, store, set("a", fmt.Sprint(i)))
	}
	w, r := &witness{}, newReceiver()
	source, _ := start(t, quick(client, w), r)
	r.waitInSync(t)
	r.take()
	delivered := source.Stats().Delivered
	srv.stop()
	srv.config.Dir = t.TempDir()
	w.clear()
	srv.start(t)
	w.waitLost(t, "not initialised", func(err error) bool { return errors.Is(err, etcd.ErrNotInitialised) })
	require.Equal(t, 301, r.count(), "a lost database removes no object")
	require.Empty(t, r.take())

	fill(t, store, 299, "1")
	update(t, store, set("a", "19"), set("b", "1"))
	require.NoError(t, store.Init(t.Context()))
	r.await(t, "the new state", func() bool { return r.value("b") == "1" && r.count() == 301 })
	require.Equal(t, "b=1 -p0299", order(r.take()))
	w.await(t, "the revision", func() bool { return source.Stats().Delivered < delivered })
	require.NotZero(t, source.Stats().Failures[etcd.FailureHistory])
	require.NotZero(t, source.Stats().Failures[etcd.FailureUninitialised])
	update(t, store, set("c", "1"))
	r.await(t, "to go on", func() bool { return r.value("c") == "1" })
}

func TestSourceRejects(t *testing.T) {
	srv, client, store := newStoreOn(t)
	raw := rawClient(t, srv.url)
	put := func(key, value string) {
		t.Helper()
		_, err := raw.Put(t.Context(), "/wayleave/test/state/"+key, value)
		require.NoError(t, err)
	}
	good := `{"kind":"Profile","name":"a","labelsToApply":{"v":"1"}}`
	update(t, store, set("good", "1"), set("a", "1"))
	put("Profile//newer", `{"schema":2,"resource":{}}`)
	put("Profile//member", `{"schema":1,"resource":`+strings.ReplaceAll(good, `"a"`, `"member"`)+`,"expires":"soon"}`)
	put("Profile//field", `{"schema":1,"resource":{"kind":"Profile","name":"field","mood":"good"}}`)
	put("Profile//other", `{"schema":1,"resource":`+good+`}`)
	put("Profile//bare", good)
	put("Profile//twice", `{"schema":1,"schema":1,"resource":`+good+`}`)
	put("Profile//text", `junk`)
	put("Gadget//x", `{"schema":1,"resource":{}}`)
	put("Profile", `{}`)
	w, r := &witness{}, newReceiver()
	source, _ := start(t, quick(client, w), r)
	r.waitInSync(t)
	require.Equal(t, []string{"a=1 good=1", "in sync"}, r.take())
	require.ElementsMatch(t, []string{
		`etcd: read state/Profile//newer: written by a newer version: schema 2, this version supports 1`,
		`etcd: read state/Profile//member: written by a newer version: unknown member "expires"`,
		`etcd: read state/Profile//field: policy: decode Profile/field: mood: unknown field (or it is written by ` +
			`a newer version)`,
		`etcd: read state/Profile//other: the value is the object Profile/a`,
		`etcd: read state/Profile//bare: schema: want a version number`,
		`etcd: read state/Profile//twice: member "schema" is given twice`,
		`etcd: read state/Profile//text: not JSON`,
		`etcd: read state/Gadget//x: written by a newer version: unknown kind "Gadget"`,
		`etcd: read state/Profile: not of the form <Kind>/<namespace>/<name>`,
	}, w.rejections())
	var unusable []string
	for key := range source.Unusable() {
		unusable = append(unusable, key.String())
	}
	slices.Sort(unusable)
	require.Equal(t, "Gadget/x Profile/bare Profile/field Profile/member Profile/newer Profile/other Profile/text "+
		"Profile/twice", strings.Join(unusable, " "))
	_, err := raw.Delete(t.Context(), "/wayleave/test/state/Gadget//x")
	require.NoError(t, err)

	put("Profile//a", `{"schema":2}`) // the last valid version is not kept
	r.wait(t, "good=1")
	require.Equal(t, []string{"-a"}, r.take())
	require.Len(t, w.rejections(), 1)
	put("Profile//a", `{"schema":1,"resource":`+good+`}`)
	put("Profile//bare", `{"schema":1,"resource":`+strings.ReplaceAll(good, `"a"`, `"bare"`)+`}`)
	r.wait(t, "a=1 bare=1 good=1")
	require.Equal(t, uint64(10), source.Stats().Rejected)
	require.Len(t, source.Unusable(), 6, "without objects that can be read now or are deleted")

	// A newer layout stops the Source, which keeps its objects.
	lists := source.Stats().Lists
	put(".cluster", `{"schema":2}`)
	put("Profile//good", `{}`)
	w.waitLost(t, "a newer layout", func(err error) bool { return errors.Is(err, etcd.ErrNewer) })
	w.await(t, "another list", func() bool { return source.Stats().Lists > lists })
	require.Equal(t, "a=1 bare=1 good=1", r.text())
	_, err = store.Put(t.Context(), profile("a", "2"), etcd.Any)
	require.ErrorIs(t, err, etcd.ErrNewer)
	put(".cluster", `{"schema":1}`)
	r.wait(t, "a=1 bare=1")
}

func TestSourceReceiverFails(t *testing.T) {
	_, client, store := newStoreOn(t)
	r := newReceiver()
	r.fail = errors.New("full")
	source, err := etcd.NewSource(quick(client, nil))
	require.NoError(t, err)
	require.ErrorIs(t, source.Run(t.Context(), r), r.fail)
	require.Equal(t, []string{"in sync"}, r.take())
	update(t, store, set("a", "1"))
	require.ErrorIs(t, source.Run(t.Context(), r), r.fail)
	require.Equal(t, []string{"a=1"}, r.take())
	require.False(t, source.Stats().Connected)
}

// Clusters in one database do not affect each other.
func TestClustersDoNotAffectEachOther(t *testing.T) {
	srv, client, store := newStoreOn(t)
	other := newStore(t, newClientOf(t, etcd.Config{Endpoints: []string{srv.url}, Cluster: "test2"}))
	require.NoError(t, other.Init(t.Context()))
	r := newReceiver()
	start(t, quick(client, nil), r)
	r.waitInSync(t)
	update(t, other, set("a", "2"))
	update(t, store, set("a", "1"))
	r.wait(t, "a=1")
	require.Equal(t, []string{"in sync", "a=1"}, r.take())
	list, err := other.List(t.Context(), etcd.Query{})
	require.NoError(t, err)
	require.Len(t, list.Objects, 1)
	require.True(t, policy.Equal(list.Objects[0].Resource, profile("a", "2")))
}
