// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

// shortTTL is the minimum TTL.
const shortTTL = 2 * time.Second

func newReporter(t testing.TB, c *etcd.Client, node string) (*etcd.Reporter, func() error) {
	return newReporterFor(t, c, node, shortTTL)
}

func newReporterFor(t testing.TB, c *etcd.Client, node string, ttl time.Duration) (*etcd.Reporter, func() error) {
	r, err := etcd.NewReporter(etcd.ReporterConfig{
		Client: c, Node: node, TTL: ttl, Interval: time.Millisecond, MaxBackOff: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	return r, background(t, r.Run)
}

func applied(t testing.TB, store *etcd.Store, key policy.Key) string {
	r, err := store.Applied(t.Context(), key)
	require.NoError(t, err)
	text := r.String()
	for _, n := range r.Nodes {
		text += fmt.Sprintf(" %s:%s", n.Node, n.State)
	}
	return text
}

// After a policy is written, one node after the other applies it. Nodes that fail or have ended are
// not counted as applied.
func TestApplied(t *testing.T) {
	srv, client, store := newStoreOn(t)
	ctx, history, raw := t.Context(), readingOf(t, client), rawClient(t, srv.url)
	for _, node := range []string{"n1", "n2", "n3"} {
		_, err := store.Put(ctx, &policy.Node{Name: node}, etcd.Any)
		require.NoError(t, err)
	}
	p := &policy.Policy{Name: "p"}
	_, err := store.Applied(ctx, p.Key())
	require.ErrorIs(t, err, etcd.ErrNotFound)
	before, err := store.Put(ctx, profile("x", "1"), etcd.Any)
	require.NoError(t, err)
	at, err := store.Put(ctx, p, etcd.Any)
	require.NoError(t, err)
	require.Equal(t, "0/3 n1:silent n2:silent n3:silent", applied(t, store, p.Key()))

	n1, stop1 := newReporter(t, client, "n1")
	n2, _ := newReporter(t, client, "n2")
	n3, _ := newReporter(t, client, "n3")
	wait := func(want string) {
		t.Helper()
		awaitStored(t, raw, want, func() bool { return applied(t, store, p.Key()) == want })
	}
	n1.Set(etcd.Report{Revision: at, History: history, InSync: true})
	n2.Set(etcd.Report{Revision: before, History: history, InSync: true})
	n3.Set(etcd.Report{Revision: at, History: history, InSync: false})
	wait("1/3 n1:applied n2:behind n3:behind")
	web := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}
	n2.Set(etcd.Report{Revision: at, History: history, InSync: true})
	n3.Set(etcd.Report{
		Revision: at, History: history, InSync: true, Faults: map[policy.Key]string{web: "no such interface"},
		Endpoints: map[policy.Key]etcd.EndpointStatus{
			web: {State: "failed", Problem: "no such interface", Generation: 2},
		},
	})
	wait("2/3 n1:applied n2:applied n3:faulty")
	r, err := store.AppliedAt(ctx, at)
	require.NoError(t, err)
	require.Equal(t, map[policy.Key]string{web: "no such interface"}, r.Nodes[2].Faults)
	require.False(t, r.Complete())
	endpoints, problems, err := store.Endpoints(ctx)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, map[string]map[policy.Key]etcd.EndpointStatus{
		"n3": {web: {State: "failed", Problem: "no such interface", Generation: 2}},
	}, endpoints)
	n3.Set(etcd.Report{Revision: at, History: history, InSync: true})
	wait("3/3 n1:applied n2:applied n3:applied")
	endpoints, _, err = store.Endpoints(ctx)
	require.NoError(t, err)
	require.Empty(t, endpoints)
	r, err = store.Applied(ctx, p.Key())
	require.NoError(t, err)
	require.True(t, r.Complete())

	// No node has applied the new revision of the policy yet.
	at, err = store.Put(ctx, &policy.Policy{Name: "p", Selector: "all()"}, etcd.Any)
	require.NoError(t, err)
	require.Equal(t, "0/3 n1:behind n2:behind n3:behind", applied(t, store, p.Key()))
	n2.Set(etcd.Report{Revision: at, History: history, InSync: true})
	wait("1/3 n1:behind n2:applied n3:behind")

	// An agent that stops deletes its report. A node that no longer exists is not listed.
	require.ErrorIs(t, stop1(), context.Canceled)
	require.Equal(t, "1/3 n1:silent n2:applied n3:behind", applied(t, store, p.Key()))
	_, err = store.Delete(ctx, policy.Key{Kind: policy.KindNode, Name: "n1"}, etcd.Any)
	require.NoError(t, err)
	require.Equal(t, "1/2 n2:applied n3:behind", applied(t, store, p.Key()))

	_, err = raw.Put(ctx, "/wayleave/test/agents/n9", `{"schema":2}`)
	require.NoError(t, err)
	require.Equal(t, "1/3 n2:applied n3:behind n9:silent", applied(t, store, p.Key()))
}

// The report of a killed agent expires. A report whose lease was lost is written again.
func TestReportsExpire(t *testing.T) {
	srv, _, store := newStoreOn(t)
	relay := newRelay(t, srv.url)
	raw := rawClient(t, srv.url)
	p := profile("p", "1")
	update(t, store, policy.Update{Key: p.Key(), Resource: p})
	cut := newClientOf(t, etcd.Config{Endpoints: []string{relay.url}, Cluster: "test", RequestTimeout: time.Second})
	node := newReportingNode(t, "n1", cut, nil, shortTTL)
	awaitStored(t, raw, "the report", func() bool { return applied(t, store, p.Key()) == "1/1 n1:applied" })
	release := relay.hold()
	t.Cleanup(release)
	awaitStored(t, raw, "its end", func() bool { return applied(t, store, p.Key()) == "0/0" })
	release()
	awaitStored(t, raw, "the report again", func() bool { return applied(t, store, p.Key()) == "1/1 n1:applied" })
	require.Equal(t, uint64(2), node.source.Stats().Lists, "an expired report does not identify the history")

	leases, err := raw.Leases(t.Context())
	require.NoError(t, err)
	for _, l := range leases.Leases {
		_, err := raw.Revoke(t.Context(), l.ID) // as an operator could do
		require.NoError(t, err)
	}
	awaitStored(t, raw, "the report once more", func() bool { return applied(t, store, p.Key()) == "1/1 n1:applied" })
	got, err := raw.Get(t.Context(), "/wayleave/test/agents/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Regexp(t, `^{"schema":1,"revision":\d+,"cluster":\d+,"term":\d+,"inSync":true,"endpoints":0,"faulty":0}$`,
		string(got.Kvs[0].Value))
}

// unansweredKV discards the responses to a number of transactions, and then of puts.
type unansweredKV struct {
	clientv3.KV
	transactions, puts atomic.Int32
}

var errNoAnswer = errors.New("the response is lost")

func (u *unansweredKV) Put(
	ctx context.Context, key, value string, opts ...clientv3.OpOption,
) (*clientv3.PutResponse, error) {
	response, err := u.KV.Put(ctx, key, value, opts...)
	if err == nil && u.transactions.Load() <= 0 && u.puts.Add(-1) >= 0 {
		return nil, errNoAnswer
	}
	return response, err
}

func (u *unansweredKV) Txn(ctx context.Context) clientv3.Txn {
	return &unansweredTxn{Txn: u.KV.Txn(ctx), kv: u}
}

type unansweredTxn struct {
	clientv3.Txn
	kv *unansweredKV
}

func (u *unansweredTxn) If(conditions ...clientv3.Cmp) clientv3.Txn {
	u.Txn = u.Txn.If(conditions...)
	return u
}

func (u *unansweredTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	u.Txn = u.Txn.Then(ops...)
	return u
}

func (u *unansweredTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	u.Txn = u.Txn.Else(ops...)
	return u
}

func (u *unansweredTxn) Commit() (*clientv3.TxnResponse, error) {
	response, err := u.Txn.Commit()
	if err == nil && u.kv.transactions.Add(-1) >= 0 {
		return nil, errNoAnswer
	}
	return response, err
}

// If the response to the write of a report is lost, the node recognises its report. The history
// continues, and the Source does not list again.
func TestReportIsRecognisedAfterLostResponse(t *testing.T) {
	for _, lost := range []struct{ transactions, puts int32 }{{1, 0}, {1, 1}, {2, 2}} {
		t.Run(fmt.Sprintf("%d transactions, %d puts", lost.transactions, lost.puts), func(t *testing.T) {
			srv, _, store := newStoreOn(t)
			p := profile("p", "1")
			update(t, store, set("p", "1"))
			raw := rawClient(t, srv.url)
			kv := &unansweredKV{KV: raw.KV}
			raw.KV = kv
			node := newReportingNode(t, "n1", newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"}), nil, time.Minute)
			awaitStored(t, raw, "the report", func() bool { return applied(t, store, p.Key()) == "1/1 n1:applied" })
			kv.puts.Store(lost.puts)
			kv.transactions.Store(lost.transactions)
			update(t, store, set("p", "2"))
			eventually(t, "the next report", func() bool {
				return kv.transactions.Load() < 0 && applied(t, store, p.Key()) == "1/1 n1:applied"
			})
			update(t, store, set("p", "3"))
			awaitStored(t, raw, "the report after it", func() bool {
				return applied(t, store, p.Key()) == "1/1 n1:applied"
			})
			require.Equal(t, uint64(1), node.source.Stats().Lists)
			require.Negative(t, kv.transactions.Load())
		})
	}
}

// readKV counts reads.
type readKV struct {
	clientv3.KV
	reads atomic.Int32
}

func (r *readKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	response, err := r.KV.Get(ctx, key, opts...)
	r.reads.Add(1)
	return response, err
}

// A report that another process replaced is written again when the Reporter reads it back, even if
// nothing changes.
func TestReplacedReportIsWrittenAgain(t *testing.T) {
	srv, _, store := newStoreOn(t)
	p := profile("p", "1")
	update(t, store, set("p", "1"))
	raw := rawClient(t, srv.url)
	kv := &readKV{KV: raw.KV}
	raw.KV = kv
	newReportingNode(t, "n1", newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"}), nil, shortTTL)
	eventually(t, "the report", func() bool { return applied(t, store, p.Key()) == "1/1 n1:applied" })
	_, err := rawClient(t, srv.url).Put(t.Context(), "/wayleave/test/agents/n1",
		`{"schema":1,"revision":1,"inSync":false,"endpoints":0,"faulty":0}`)
	require.NoError(t, err)
	replaced := kv.reads.Load()
	eventually(t, "the report again", func() bool {
		reads := kv.reads.Load() - replaced
		written := applied(t, store, p.Key()) == "1/1 n1:applied"
		require.True(t, written || reads < 10, "the report was read back %d times and not written", reads)
		return written
	})
}

// With a new lease, a report is written at once, and not only at the next check of the report.
func TestNewLeaseIsReportedAtOnce(t *testing.T) {
	srv, client, store := newStoreOn(t)
	raw := rawClient(t, srv.url)
	p := profile("p", "1")
	update(t, store, set("p", "1"))
	newReportingNode(t, "n1", client, nil, time.Hour)
	awaitStored(t, raw, "the report", func() bool { return applied(t, store, p.Key()) == "1/1 n1:applied" })
	leases, err := raw.Leases(t.Context())
	require.NoError(t, err)
	require.Len(t, leases.Leases, 1)
	_, err = raw.Revoke(t.Context(), leases.Leases[0].ID)
	require.NoError(t, err)
	update(t, store, set("p", "2")) // when it writes the report, the node notices that the lease is lost
	awaitStored(t, raw, "the report again", func() bool { return applied(t, store, p.Key()) == "1/1 n1:applied" })
}

// A report of many endpoints takes several transactions. Later, only changes are written.
func TestReportsOfManyEndpoints(t *testing.T) {
	srv, client, store := newStoreOn(t)
	raw := rawClient(t, srv.url)
	n1, _ := newReporter(t, client, "n1")
	history := readingOf(t, client)
	report := func(n int, state string) etcd.Report {
		r := etcd.Report{
			Revision: 1, History: history, InSync: true, Endpoints: map[policy.Key]etcd.EndpointStatus{},
			Faults: map[policy.Key]string{},
		}
		for i := range n {
			key := policy.Key{Kind: policy.KindWorkloadEndpoint, Name: fmt.Sprint("e", i)}
			r.Endpoints[key] = etcd.EndpointStatus{State: "up"}
			r.Faults[key] = "broken"
		}
		r.Endpoints[policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "e0"}] = etcd.EndpointStatus{State: state}
		return r
	}
	count := func() int {
		endpoints, _, err := store.Endpoints(t.Context())
		require.NoError(t, err)
		return len(endpoints["n1"])
	}
	n1.Set(report(300, "up"))
	awaitStored(t, raw, "all of them", func() bool { return count() == 300 })
	awaitStored(t, raw, "the agent", func() bool {
		r, err := store.AppliedAt(t.Context(), 1)
		require.NoError(t, err)
		return len(r.Nodes) == 1 && r.Nodes[0].Faulty == 300 && len(r.Nodes[0].Faults) == etcd.MaxFaults
	})
	before, err := raw.Get(t.Context(), "x")
	require.NoError(t, err)
	n1.Set(report(300, "failed"))
	awaitStored(t, raw, "the change", func() bool {
		endpoints, _, err := store.Endpoints(t.Context())
		require.NoError(t, err)
		return endpoints["n1"][policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "e0"}].State == "failed"
	})
	after, err := raw.Get(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, before.Header.Revision+1, after.Header.Revision)
	n1.Set(report(1, "up"))
	awaitStored(t, raw, "the others to go", func() bool { return count() == 1 })
}
