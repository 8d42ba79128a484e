// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

// reportingNode is a node with a Source, and a Reporter that reports all received revisions.
type reportingNode struct {
	name string
	*receiver
	source *etcd.Source
}

func newReportingNode(t testing.TB, name string, client *etcd.Client, w *witness, ttl time.Duration) *reportingNode {
	t.Helper()
	n := &reportingNode{name: name, receiver: newReceiver()}
	reporter, _ := newReporterFor(t, client, name, ttl)
	cfg := quick(client, w)
	cfg.Hooks.Delivered = func(revision etcd.Revision, history *etcd.History) {
		reporter.Set(etcd.Report{Revision: revision, History: history, InSync: true})
	}
	n.source, _ = start(t, cfg, n.receiver)
	return n
}

// histories is a server whose database is replaced. It has two nodes: one is always connected, the
// other is cut off meanwhile.
type histories struct {
	*server
	relay   *relay
	release func()
	nodes   []*reportingNode
	store   *etcd.Store // connected since the last start of the server
	checked int         // number of reports checked
}

func newHistories(t *testing.T, ttl time.Duration) *histories {
	h := &histories{server: newServer(t), release: func() {}}
	h.relay = newRelay(t, h.url)
	t.Cleanup(func() { h.release() })
	h.connect(t)
	for name, url := range map[string]string{"connected": h.url, "cut": h.relay.url} {
		client := newClientOf(t, etcd.Config{Endpoints: []string{url}, Cluster: "test", RequestTimeout: time.Second})
		h.nodes = append(h.nodes, newReportingNode(t, name, client, nil, ttl))
	}
	return h
}

func (h *histories) connect(t *testing.T) {
	h.store = newStore(t, newClient(t, h.url))
}

// write writes objects one by one, "a=1 b=2 -c", and checks after each.
func (h *histories) write(t *testing.T, objects string) {
	t.Helper()
	for word := range strings.FieldsSeq(objects) {
		if name, ok := strings.CutPrefix(word, "-"); ok {
			update(t, h.store, unset(name))
		} else {
			name, value, _ := strings.Cut(word, "=")
			update(t, h.store, set(name, value))
		}
		h.check(t)
	}
}

// check requires that every node has an object that it is reported to have applied.
func (h *histories) check(t *testing.T) {
	t.Helper()
	list, err := h.store.List(t.Context(), etcd.Query{})
	require.NoError(t, err)
	var state []string
	for _, o := range list.Objects {
		name := o.Resource.Key().Name
		want := o.Resource.(*policy.Profile).LabelsToApply["v"]
		state = append(state, name+"="+want)
		h.checkProgress(t, name, want, func(n *reportingNode) string { return n.value(name) },
			func() (etcd.Progress, error) {
				return h.store.Applied(t.Context(), o.Resource.Key())
			})
	}
	h.checkProgress(t, "all", strings.Join(state, " "), (*reportingNode).text, func() (etcd.Progress, error) {
		return h.store.AppliedAt(t.Context(), list.Revision)
	})
}

// checkProgress compares the reports with the states of the nodes before and after, because a node
// may apply an object in between.
func (h *histories) checkProgress(
	t *testing.T, what, want string, has func(*reportingNode) string, read func() (etcd.Progress, error),
) {
	t.Helper()
	before := map[string]string{}
	for _, n := range h.nodes {
		before[n.name] = has(n)
	}
	progress, err := read()
	require.NoError(t, err)
	for _, node := range progress.Nodes {
		for _, n := range h.nodes {
			if n.name != node.Node || node.State != etcd.NodeApplied {
				continue
			}
			h.checked++
			if after := has(n); before[n.name] != want && after != want {
				require.Fail(t, "reported too early", "%s on %s: want %q, it has %q (%+v)", what, n.name, want, after,
					progress)
			}
		}
	}
}

// waitApplied waits until both nodes are reported to have applied all objects, and checks the
// reports meanwhile.
func (h *histories) waitApplied(t *testing.T) {
	t.Helper()
	barrier, err := h.store.Barrier(t.Context())
	require.NoError(t, err)
	eventually(t, "all applied", func() bool {
		h.check(t)
		progress, err := h.store.AppliedAt(t.Context(), barrier)
		require.NoError(t, err)
		return progress.Complete() && len(progress.Nodes) == len(h.nodes)
	})
	h.check(t)
}

// checkReports checks until all earlier reports have expired.
func (h *histories) checkReports(t *testing.T) {
	t.Helper()
	for range 50 {
		h.check(t)
	}
}

// replace stops the server, replaces its database, and starts it. The node behind the relay is cut
// off until reconnect.
func (h *histories) replace(t *testing.T, database func()) {
	t.Helper()
	h.stop()
	h.release = h.relay.hold()
	h.relay.cut()
	database()
	h.start(t)
	h.connect(t)
	h.checkReports(t)
}

func (h *histories) reconnect(t *testing.T) {
	h.release()
	h.waitApplied(t)
}

// backup returns a copy of the database, and starts it again.
func (h *histories) backup(t *testing.T) string {
	h.stop()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(h.config.Dir)))
	h.start(t)
	h.connect(t)
	return dir
}

// many returns 100 changes of one object, as an argument of write.
func many(name, value string) string {
	var words []string
	for i := range 100 {
		words = append(words, fmt.Sprintf("%s=%s-%d", name, value, i))
	}
	return strings.Join(words, " ")
}

// After any replacement of the database, no node is reported to have applied an object that it
// lacks.
func TestNoFalseReportAfterDatabaseIsReplaced(t *testing.T) {
	empty := func(h *histories) func(*testing.T) {
		return func(t *testing.T) { h.replace(t, func() { h.config.Dir = t.TempDir() }) }
	}
	begin := func(t *testing.T, h *histories) {
		h.write(t, "a=1 b=1 c=1")
		require.NoError(t, h.store.Init(t.Context()))
		h.waitApplied(t)
		h.write(t, "a=2 -c b=2")
		h.waitApplied(t)
	}
	for name, run := range map[string]func(*testing.T, *histories){
		"rebuilt with a lower revision": func(t *testing.T, h *histories) {
			empty(h)(t)
			h.write(t, "a=3")
			require.NoError(t, h.store.Init(t.Context()))
			h.checkReports(t)
			h.waitAppliedBy(t, "connected")
		},
		"rebuilt with the same objects": func(t *testing.T, h *histories) {
			empty(h)(t)
			h.write(t, "a=1 b=1 c=1")
			require.NoError(t, h.store.Init(t.Context()))
			h.write(t, "a=2 -c b=2")
			h.checkReports(t)
		},
		"rebuilt with other objects at the same revisions": func(t *testing.T, h *histories) {
			empty(h)(t)
			h.write(t, "a=5 b=5 c=5")
			require.NoError(t, h.store.Init(t.Context()))
			h.write(t, "a=6 -c b=6")
			h.checkReports(t)
		},
		"rebuilt with a higher revision": func(t *testing.T, h *histories) {
			empty(h)(t)
			h.write(t, many("a", "7")+" b=7")
			require.NoError(t, h.store.Init(t.Context()))
			h.checkReports(t)
		},
		"restored": func(t *testing.T, h *histories) {
			dir := h.backup(t)
			h.waitApplied(t)
			h.write(t, "a=8 c=8")
			h.waitApplied(t)
			h.replace(t, func() { h.config.Dir = dir })
		},
		"restored and changed": func(t *testing.T, h *histories) {
			dir := h.backup(t)
			h.waitApplied(t)
			h.write(t, "a=8 c=8")
			h.waitApplied(t)
			h.replace(t, func() { h.config.Dir = dir })
			h.write(t, "a=9 "+many("b", "9"))
			h.checkReports(t)
		},
		"restored with a lower raft term and changed": func(t *testing.T, h *histories) {
			h.backup(t) // causes an election, so the reports in the next backup have a higher term
			h.waitApplied(t)
			dir := h.backup(t)
			h.waitApplied(t)
			h.write(t, "a=8 c=8")
			h.waitApplied(t)
			h.replace(t, func() { h.config.Dir = restore(t, dir) })
			h.write(t, "a=9 "+many("b", "9"))
			h.checkReports(t)
		},
		"swapped, and swapped back": func(t *testing.T, h *histories) {
			other := newServer(t)
			store := newStore(t, newClient(t, other.url))
			update(t, store, set("a", "10"), set("d", "10"))
			require.NoError(t, store.Init(t.Context()))
			swap := func() {
				other.stop()
				h.config.Dir, other.config.Dir = other.config.Dir, h.config.Dir
			}
			h.replace(t, swap)
			h.reconnect(t)
			h.write(t, many("d", "11"))
			h.waitApplied(t)
			h.replace(t, swap)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ttl := shortTTL
			if strings.HasPrefix(name, "restored") {
				ttl = 30 * time.Second // the reports in the backup must not expire
			}
			h := newHistories(t, ttl)
			begin(t, h)
			run(t, h)
			h.reconnect(t)
			h.write(t, "a=20 e=20")
			h.waitApplied(t)
			t.Logf("%d reports checked", h.checked)
		})
	}
}

// restore copies the database of a server into a new directory, as a restore by etcdutl does. It
// keeps the cluster id and the revision, and resets the raft term.
func restore(t *testing.T, dir string) string {
	t.Helper()
	const database = "member/snap/db"
	data, err := os.ReadFile(filepath.Join(dir, database))
	require.NoError(t, err)
	restored := t.TempDir()
	path := filepath.Join(restored, database)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, data, 0o600))
	db := backend.NewDefaultBackend(zap.NewNop(), path)
	require.NoError(t, schema.NewMembershipBackend(zap.NewNop(), db).TrimMembershipFromBackend())
	tx := db.BatchTx()
	tx.LockOutsideApply()
	tx.UnsafeDelete(schema.Meta, schema.MetaConsistentIndexKeyName)
	tx.UnsafeDelete(schema.Meta, schema.MetaTermKeyName)
	tx.Unlock()
	require.NoError(t, db.Close())
	return restored
}

// A Source without a Reporter detects a restored backup by the lower raft term. It does so although
// the cluster id is the same and the revision is higher.
func TestRestoreIsDetectedByRaftTerm(t *testing.T) {
	srv, _, store := newStoreOn(t)
	update(t, store, set("a", "1"))
	srv.stop()
	srv.start(t) // an election raises the term
	dir := t.TempDir()
	relay := newRelay(t, srv.url)
	w, r := &witness{}, newReceiver()
	source, _ := start(t, quick(newClientOf(t,
		etcd.Config{Endpoints: []string{relay.url}, Cluster: "test", RequestTimeout: time.Second}), w), r)
	r.waitInSync(t)
	before, err := rawClient(t, srv.url).Get(t.Context(), "x")
	require.NoError(t, err)

	srv.stop()
	require.NoError(t, os.CopyFS(dir, os.DirFS(srv.config.Dir)))
	srv.start(t)
	update(t, newStore(t, newClient(t, srv.url)), set("lost", "1"))
	r.wait(t, "a=1 lost=1")
	srv.stop()
	release := relay.hold()
	t.Cleanup(release)
	relay.cut()
	srv.config.Dir = restore(t, dir)
	srv.start(t)
	after, err := rawClient(t, srv.url).Get(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, before.Header.ClusterId, after.Header.ClusterId)
	require.Equal(t, before.Header.Revision, after.Header.Revision)
	require.Less(t, after.Header.RaftTerm, before.Header.RaftTerm)
	store = newStore(t, newClient(t, srv.url))
	for i := range 5 {
		update(t, store, set("a", fmt.Sprint("restored", i)))
	}
	release()
	r.wait(t, "a=restored4")
	require.Equal(t, uint64(2), source.Stats().Lists)
}

// waitAppliedBy waits until a node is reported to have applied all objects.
func (h *histories) waitAppliedBy(t *testing.T, node string) {
	t.Helper()
	barrier, err := h.store.Barrier(t.Context())
	require.NoError(t, err)
	eventually(t, "all applied by "+node, func() bool {
		h.check(t)
		progress, err := h.store.AppliedAt(t.Context(), barrier)
		require.NoError(t, err)
		for _, n := range progress.Nodes {
			if n.Node == node && n.State == etcd.NodeApplied {
				return true
			}
		}
		return false
	})
}

// readingOf returns the History that a Source with this client reads. The Source runs until the
// test ends.
func readingOf(t testing.TB, client *etcd.Client) *etcd.History {
	t.Helper()
	histories := make(chan *etcd.History, 1)
	source, err := etcd.NewSource(etcd.SourceConfig{Client: client, Hooks: etcd.SourceHooks{
		Delivered: func(_ etcd.Revision, history *etcd.History) {
			select {
			case histories <- history:
			default:
			}
		},
	}})
	require.NoError(t, err)
	background(t, func(ctx context.Context) error { return source.Run(ctx, newReceiver()) })
	select {
	case history := <-histories:
		return history
	case <-time.After(waitTimeout):
		require.Fail(t, "nothing was read")
		return nil
	}
}
