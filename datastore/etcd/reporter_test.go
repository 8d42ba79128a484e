// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

func newReporter(t testing.TB, c *etcd.Client, node string) (*etcd.Reporter, func() error) {
	r, err := etcd.NewReporter(etcd.ReporterConfig{Client: c, Node: node, TTL: 2 * time.Second, Interval: time.Millisecond, MaxBackOff: 100 * time.Millisecond})
	require.NoError(t, err)
	return r, background(t, r.Run)
}

func realised(t testing.TB, store *etcd.Store, key policy.Key) string {
	r, err := store.Realised(t.Context(), key)
	require.NoError(t, err)
	text := r.String()
	for _, n := range r.Nodes {
		text += fmt.Sprintf(" %s:%s", n.Node, n.State)
	}
	return text
}

// A policy that is written once takes effect on node after node; nodes that fail, or are gone, are not counted.
func TestRealised(t *testing.T) {
	srv, client, store := newStoreOn(t)
	ctx := t.Context()
	for _, node := range []string{"n1", "n2", "n3"} {
		_, err := store.Put(ctx, &policy.Node{Name: node}, etcd.Any)
		require.NoError(t, err)
	}
	p := &policy.Policy{Name: "p"}
	_, err := store.Realised(ctx, p.Key())
	require.ErrorIs(t, err, etcd.ErrNotFound)
	before, err := store.Put(ctx, profile("x", "1"), etcd.Any)
	require.NoError(t, err)
	at, err := store.Put(ctx, p, etcd.Any)
	require.NoError(t, err)
	require.Equal(t, "0/3 n1:silent n2:silent n3:silent", realised(t, store, p.Key()))

	n1, stop1 := newReporter(t, client, "n1")
	n2, _ := newReporter(t, client, "n2")
	n3, _ := newReporter(t, client, "n3")
	wait := func(want string) {
		t.Helper()
		eventually(t, want, func() bool { return realised(t, store, p.Key()) == want })
	}
	n1.Set(etcd.Report{Revision: at, InSync: true})
	n2.Set(etcd.Report{Revision: before, InSync: true})
	n3.Set(etcd.Report{Revision: at, InSync: false})
	wait("1/3 n1:realised n2:behind n3:behind")
	web := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}
	n2.Set(etcd.Report{Revision: at + 1000, InSync: true})
	n3.Set(etcd.Report{
		Revision: at, InSync: true, Faults: map[policy.Key]string{web: "no such interface"},
		Endpoints: map[policy.Key]etcd.EndpointStatus{web: {State: "failed", Problem: "no such interface", Generation: 2}},
	})
	wait("2/3 n1:realised n2:realised n3:faulty")
	r, err := store.RealisedAt(ctx, at)
	require.NoError(t, err)
	require.Equal(t, map[policy.Key]string{web: "no such interface"}, r.Nodes[2].Faults)
	require.False(t, r.Complete())
	endpoints, problems, err := store.Endpoints(ctx)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, map[string]map[policy.Key]etcd.EndpointStatus{
		"n3": {web: {State: "failed", Problem: "no such interface", Generation: 2}},
	}, endpoints)
	n3.Set(etcd.Report{Revision: at, InSync: true})
	wait("3/3 n1:realised n2:realised n3:realised")
	endpoints, _, err = store.Endpoints(ctx)
	require.NoError(t, err)
	require.Empty(t, endpoints)
	r, err = store.Realised(ctx, p.Key())
	require.NoError(t, err)
	require.True(t, r.Complete())

	// A newer revision of the policy is in force nowhere yet.
	_, err = store.Put(ctx, &policy.Policy{Name: "p", Selector: "all()"}, etcd.Any)
	require.NoError(t, err)
	require.Equal(t, "1/3 n1:behind n2:realised n3:behind", realised(t, store, p.Key())) // n2 said so in advance

	// An agent that stops takes its report back; a node that is no more is not counted.
	require.ErrorIs(t, stop1(), context.Canceled)
	require.Equal(t, "1/3 n1:silent n2:realised n3:behind", realised(t, store, p.Key()))
	_, err = store.Delete(ctx, policy.Key{Kind: policy.KindNode, Name: "n1"}, etcd.Any)
	require.NoError(t, err)
	require.Equal(t, "1/2 n2:realised n3:behind", realised(t, store, p.Key()))

	_, err = rawClient(t, srv.url).Put(ctx, "/wayleave/test/agents/n9", `{"schema":2}`)
	require.NoError(t, err)
	require.Equal(t, "1/3 n2:realised n3:behind n9:silent", realised(t, store, p.Key()))
}

// The report of an agent that is gone without a word expires, and one whose lease was lost comes back.
func TestReportsExpire(t *testing.T) {
	srv, _, store := newStoreOn(t)
	relay := newRelay(t, srv.url)
	p := profile("p", "1")
	at, err := store.Put(t.Context(), p, etcd.Any)
	require.NoError(t, err)
	cut := newClientOf(t, etcd.Config{Endpoints: []string{relay.url}, Cluster: "test", RequestTimeout: time.Second})
	n1, _ := newReporter(t, cut, "n1")
	n1.Set(etcd.Report{Revision: at, InSync: true})
	eventually(t, "the report", func() bool { return realised(t, store, p.Key()) == "1/1 n1:realised" })
	release := relay.hold()
	eventually(t, "its end", func() bool { return realised(t, store, p.Key()) == "0/0" })
	n1.Set(etcd.Report{Revision: at + 1, InSync: true})
	release()
	eventually(t, "the report again", func() bool { return realised(t, store, p.Key()) == "1/1 n1:realised" })

	leases, err := rawClient(t, srv.url).Leases(t.Context())
	require.NoError(t, err)
	raw := rawClient(t, srv.url)
	for _, l := range leases.Leases {
		_, err := raw.Revoke(t.Context(), l.ID) // as by an operator
		require.NoError(t, err)
	}
	eventually(t, "the report once more", func() bool { return realised(t, store, p.Key()) == "1/1 n1:realised" })
	got, err := raw.Get(t.Context(), "/wayleave/test/agents/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf(`{"schema":1,"revision":%d,"inSync":true,"endpoints":0,"faulty":0}`, at+1), string(got.Kvs[0].Value))
}

// A report of many endpoints takes several transactions; only what changes is written again.
func TestReportsOfManyEndpoints(t *testing.T) {
	srv, client, store := newStoreOn(t)
	n1, _ := newReporter(t, client, "n1")
	report := func(n int, state string) etcd.Report {
		r := etcd.Report{Revision: 1, InSync: true, Endpoints: map[policy.Key]etcd.EndpointStatus{}, Faults: map[policy.Key]string{}}
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
	eventually(t, "all of them", func() bool { return count() == 300 })
	eventually(t, "the agent", func() bool {
		r, err := store.RealisedAt(t.Context(), 1)
		require.NoError(t, err)
		return len(r.Nodes) == 1 && r.Nodes[0].Faulty == 300 && len(r.Nodes[0].Faults) == etcd.MaxFaults
	})
	raw := rawClient(t, srv.url)
	before, err := raw.Get(t.Context(), "x")
	require.NoError(t, err)
	n1.Set(report(300, "failed"))
	eventually(t, "the change", func() bool {
		endpoints, _, err := store.Endpoints(t.Context())
		require.NoError(t, err)
		return endpoints["n1"][policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "e0"}].State == "failed"
	})
	after, err := raw.Get(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, before.Header.Revision+1, after.Header.Revision)
	n1.Set(report(1, "up"))
	eventually(t, "the others to go", func() bool { return count() == 1 })
}
