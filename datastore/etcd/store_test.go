// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

func TestStorePutGetDelete(t *testing.T) {
	_, _, store := newStoreOn(t)
	ctx := t.Context()
	p := profile("a", "1")
	first, err := store.Put(ctx, p, etcd.Absent)
	require.NoError(t, err)
	got, err := store.Get(ctx, p.Key())
	require.NoError(t, err)
	require.Equal(t, etcd.Object{Resource: p, Revision: first}, got)

	_, err = store.Put(ctx, p, etcd.Absent)
	require.ErrorIs(t, err, etcd.ErrConflict)
	require.EqualError(t, err,
		fmt.Sprintf("etcd: write Profile/a: want revision absent, have %d: changed by another writer", first))
	_, err = store.Put(ctx, profile("b", "1"), first)
	require.EqualError(t, err,
		fmt.Sprintf("etcd: write Profile/b: want revision %d, have absent: changed by another writer", first))
	second, err := store.Put(ctx, profile("a", "2"), first)
	require.NoError(t, err)
	require.Greater(t, second, first)
	_, err = store.Delete(ctx, p.Key(), first)
	require.ErrorIs(t, err, etcd.ErrConflict)

	same, err := store.Put(ctx, profile("a", "2"), etcd.Any)
	require.NoError(t, err)
	require.Equal(t, second, same, "nothing was written")
	third, err := store.Delete(ctx, p.Key(), second)
	require.NoError(t, err)
	require.Greater(t, third, second)
	_, err = store.Get(ctx, p.Key())
	require.ErrorIs(t, err, etcd.ErrNotFound)
	_, err = store.Delete(ctx, p.Key(), etcd.Any)
	require.NoError(t, err)
}

// slowKV calls between once, before it sends the second transaction. So another writer can change
// the object first.
type slowKV struct {
	clientv3.KV
	transactions int
	between      func()
}

func (s *slowKV) Txn(ctx context.Context) clientv3.Txn {
	if s.transactions++; s.transactions == 2 {
		s.between()
	}
	return s.KV.Txn(ctx)
}

// A write that expects a revision, or none, also fails if another writer changes the object just
// before.
func TestConcurrentChangeIsAConflict(t *testing.T) {
	for _, row := range []struct {
		name          string
		before, after policy.Update
		conflict      bool
		absent        bool // is expected
	}{
		{"created", unset("a"), set("a", "other"), true, true},
		{"changed", set("a", "1"), set("a", "other"), true, false},
		{"deleted", set("a", "1"), unset("a"), true, false},
		{"another", unset("a"), set("b", "other"), false, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			srv, _, store := newStoreOn(t)
			update(t, store, row.before)
			expect := etcd.Absent
			if !row.absent {
				have, err := store.Get(t.Context(), row.before.Key)
				require.NoError(t, err)
				expect = have.Revision
			}
			raw := rawClient(t, srv.url)
			raw.KV = &slowKV{KV: raw.KV, between: func() { update(t, store, row.after) }}
			slow := newStore(t, newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"}))
			_, err := slow.Put(t.Context(), profile("a", "slow"), expect)
			got, failed := store.Get(t.Context(), row.before.Key)
			switch {
			case !row.conflict:
				require.NoError(t, err)
				require.Equal(t, profile("a", "slow"), got.Resource)
			case row.after.Resource == nil:
				require.ErrorIs(t, err, etcd.ErrConflict)
				require.ErrorIs(t, failed, etcd.ErrNotFound)
			default:
				require.ErrorIs(t, err, etcd.ErrConflict)
				require.Equal(t, row.after.Resource, got.Resource)
			}
		})
	}
}

func TestStoreValidatesBeforeWriting(t *testing.T) {
	_, _, store := newStoreOn(t)
	ctx := t.Context()
	var invalid *policy.ValidationError
	_, err := store.Put(ctx, &policy.Policy{Name: "p", Selector: "=="}, etcd.Any)
	require.ErrorAs(t, err, &invalid)
	_, err = store.Put(ctx, &policy.Policy{Name: "a/b"}, etcd.Any)
	require.ErrorAs(t, err, &invalid)
	_, err = store.Put(ctx, nil, etcd.Any)
	require.Error(t, err)
	_, err = store.Delete(ctx, policy.Key{Kind: "Gadget", Name: "x"}, etcd.Any)
	require.EqualError(t, err, "etcd: Gadget/x: no such kind")
	_, err = store.Delete(ctx, policy.Key{Kind: policy.KindPolicy, Namespace: "a/b", Name: "x"}, etcd.Any)
	require.EqualError(t, err, "etcd: Policy/a/b/x: not a key")

	wrong := set("b", "1")
	wrong.Key.Name = "c"
	err = store.Update(ctx, []policy.Update{set("a", "1"), wrong})
	require.ErrorIs(t, err, datastore.ErrKeyMismatch)
	require.ErrorContains(t, store.Update(ctx, []policy.Update{set("a", "1"), unset("a")}), "twice")
	var many []policy.Update
	for i := range etcd.MaxWrites + 1 {
		many = append(many, set(fmt.Sprint("p", i), "1"))
	}
	require.ErrorIs(t, store.Update(ctx, many), etcd.ErrTooMany)
	list, err := store.List(ctx, etcd.Query{})
	require.NoError(t, err)
	require.Empty(t, list.Objects, "all or nothing")

	// Resources are stored in canonical form.
	_, err = store.Put(ctx, &policy.NetworkSet{Name: "s", Nets: []netip.Prefix{netip.MustParsePrefix("10.1.2.3/8")}},
		etcd.Any)
	require.NoError(t, err)
	got, err := store.Get(ctx, policy.Key{Kind: policy.KindNetworkSet, Name: "s"})
	require.NoError(t, err)
	require.Equal(t, "10.0.0.0/8", got.Resource.(*policy.NetworkSet).Nets[0].String())
}

// Get returns the rules that Put received.
func TestGetReturnsStoredRules(t *testing.T) {
	_, _, store := newStoreOn(t)
	p := &policy.Policy{Name: "voice", Selector: "all()", Ingress: []policy.Rule{
		{
			Action: policy.Allow, Protocol: policy.ProtocolUDP,
			HeaderMatch: policy.HeaderMatch{DSCP: []policy.DSCP{46, 0}, NotDSCP: []policy.DSCP{63}},
		},
	}}
	_, err := store.Put(t.Context(), p, etcd.Any)
	require.NoError(t, err)
	got, err := store.Get(t.Context(), p.Key())
	require.NoError(t, err)
	require.Equal(t, p, got.Resource)
}

// A value of a newer version is neither read in part nor overwritten, but can be deleted.
func TestStoreRefusesNewer(t *testing.T) {
	srv, _, store := newStoreOn(t)
	ctx := t.Context()
	raw := rawClient(t, srv.url)
	_, err := raw.Put(ctx, "/wayleave/test/state/Profile//a",
		`{"schema":1,"priority":3,"resource":{"kind":"Profile","name":"a"}}`)
	require.NoError(t, err)
	_, err = store.Get(ctx, profile("a", "").Key())
	require.ErrorIs(t, err, etcd.ErrNewer)
	_, err = store.Put(ctx, profile("a", "1"), etcd.Any)
	require.ErrorIs(t, err, etcd.ErrNewer)
	list, err := store.List(ctx, etcd.Query{})
	require.NoError(t, err)
	require.Empty(t, list.Objects)
	require.Len(t, list.Problems, 1)
	require.ErrorIs(t, list.Problems[0], etcd.ErrNewer)
	_, err = store.Delete(ctx, profile("a", "").Key(), etcd.Any)
	require.NoError(t, err)
	_, err = store.Put(ctx, profile("a", "1"), etcd.Absent)
	require.NoError(t, err)
}

func TestStoreList(t *testing.T) {
	srv, _, store := newStoreOn(t)
	ctx := t.Context()
	block := &policy.Block{CIDR: netip.MustParsePrefix("10.0.1.0/26"), Node: "n1"}
	web := &policy.NetworkSet{
		Namespace: "shop", Name: "web", Nets: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")},
	}
	global := &policy.NetworkSet{Name: "web"}
	shopping := &policy.NetworkSet{Namespace: "shopping", Name: "web"}
	for _, r := range []policy.Resource{block, web, global, shopping} {
		_, err := store.Put(ctx, r, etcd.Any)
		require.NoError(t, err)
	}
	fill(t, store, 25, "1")
	paged, err := etcd.NewStore(etcd.StoreConfig{Client: newClient(t, srv.url), PageSize: 10})
	require.NoError(t, err)
	query := func(q etcd.Query) []string {
		list, err := paged.List(ctx, q)
		require.NoError(t, err)
		require.Empty(t, list.Problems)
		var keys []string
		for _, o := range list.Objects {
			keys = append(keys, o.Resource.Key().String())
			require.LessOrEqual(t, o.Revision, list.Revision)
		}
		return keys
	}
	require.Len(t, query(etcd.Query{}), 29)
	require.Len(t, query(etcd.Query{Kind: policy.KindProfile}), 25)
	require.Equal(t, []string{"Block/10.0.1.0/26"}, query(etcd.Query{Kind: policy.KindBlock}))
	require.Equal(t, []string{"NetworkSet/web", "NetworkSet/shop/web", "NetworkSet/shopping/web"},
		query(etcd.Query{Kind: policy.KindNetworkSet}))
	require.Equal(t, []string{"NetworkSet/shop/web"}, query(etcd.Query{Kind: policy.KindNetworkSet, Namespace: "shop"}))
	_, err = store.List(ctx, etcd.Query{Namespace: "shop"})
	require.Error(t, err)

	// The layout, as documented.
	raw := rawClient(t, srv.url)
	response, err := raw.Get(ctx, "/", clientv3.WithPrefix())
	require.NoError(t, err)
	var text []string
	for _, kv := range response.Kvs {
		if !strings.Contains(string(kv.Key), "Profile") {
			text = append(text, string(kv.Key)+" "+string(kv.Value))
		}
	}
	require.Regexp(t, `^/wayleave/test/state/.cluster {"schema":1,"history":"[A-Z2-7]{26}"}$`, text[0])
	require.Equal(t, []string{
		`/wayleave/test/state/Block//10.0.1.0/26 {"schema":1,"resource":{"kind":"Block","cidr":"10.0.1.0/26",` +
			`"node":"n1"}}`,
		`/wayleave/test/state/NetworkSet//web {"schema":1,"resource":{"kind":"NetworkSet","name":"web"}}`,
		`/wayleave/test/state/NetworkSet/shop/web {"schema":1,"resource":{"kind":"NetworkSet","namespace":"shop",` +
			`"name":"web","nets":["10.0.0.1/32"]}}`,
		`/wayleave/test/state/NetworkSet/shopping/web {"schema":1,"resource":{"kind":"NetworkSet",` +
			`"namespace":"shopping","name":"web"}}`,
	}, text[1:])
}

// If several writers increase the same numbers with compare-and-swap, no write is lost, and pairs
// stay equal.
func TestStoreConcurrent(t *testing.T) {
	_, client, store := newStoreOn(t)
	update(t, store, set("l", "0"), set("r", "0"))
	r := newReceiver()
	var split []string
	start(t, quick(client, nil), r)
	var wg sync.WaitGroup
	const writers, rounds = 4, 20
	for range writers {
		wg.Go(func() {
			for done := 0; done < rounds; {
				o, err := store.Get(t.Context(), profile("l", "").Key())
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				_, _ = fmt.Sscan(o.Resource.(*policy.Profile).LabelsToApply["v"], &n)
				next := fmt.Sprint(n + 1)
				_, err = store.Commit(t.Context(),
					[]etcd.Write{{Update: set("l", next), Expect: o.Revision}, {Update: set("r", next)}})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, etcd.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	r.wait(t, "l=80 r=80")
	for _, batch := range r.take() {
		if l, rr, ok := strings.Cut(batch, " "); ok && l != "in" && l[1:] != rr[1:] {
			split = append(split, batch)
		}
	}
	require.Empty(t, split)
}

func TestConfigsAreChecked(t *testing.T) {
	password := func() (etcd.Secret, error) { return "hush", nil }
	for _, row := range []struct {
		cfg  etcd.Config
		want string
	}{
		{etcd.Config{}, "etcd: Config.Endpoints: required"},
		{etcd.Config{Endpoints: []string{"127.0.0.1:2379"}}, "want http://host:port"},
		{etcd.Config{Endpoints: []string{"http://u:hush@127.0.0.1:1"}}, "belong in Username"},
		{
			etcd.Config{Endpoints: []string{"http://10.0.0.1:1"}, Username: "u", Password: "hush"},
			"a password needs https",
		},
		{etcd.Config{Endpoints: []string{"http://10.0.0.1:1"}, Username: "u"}, "both or neither"},
		{etcd.Config{Endpoints: []string{"https://10.0.0.1:1"}, ReadPassword: password}, "both or neither"},
		{etcd.Config{
			Endpoints: []string{"https://10.0.0.1:1"}, Username: "u", Password: "p", ReadPassword: password,
		}, "one of them"},
		{etcd.Config{Endpoints: []string{"http://10.0.0.1:1"}, Username: "u", ReadPassword: password}, "needs https"},
		{etcd.Config{Endpoints: []string{"http://10.0.0.1:1"}, TLS: etcd.TLS{CAFile: "ca"}}, "want https, because TLS"},
		{etcd.Config{Endpoints: []string{"https://10.0.0.1:1"}, TLS: etcd.TLS{CertFile: "c"}}, "both or neither"},
		{etcd.Config{Endpoints: []string{"https://10.0.0.1:1"}, TLS: etcd.TLS{CAFile: "/nowhere"}}, "load TLS files"},
		{etcd.Config{Endpoints: []string{"https://10.0.0.1:1"}, Cluster: "a/b"}, "Cluster"},
		{etcd.Config{Endpoints: []string{"https://10.0.0.1:1"}, Prefix: "a/"}, "Prefix"},
		{etcd.Config{Endpoints: []string{"https://10.0.0.1:1"}, RequestTimeout: -1}, "RequestTimeout"},
	} {
		_, err := etcd.NewClient(row.cfg)
		require.ErrorContains(t, err, row.want)
		require.NotContains(t, err.Error(), "hush")
	}
	_, err := etcd.NewSource(etcd.SourceConfig{PageSize: -1})
	require.ErrorContains(t, err, "required")
	_, err = etcd.NewStore(etcd.StoreConfig{PageSize: -1})
	require.ErrorContains(t, err, "required")
	_, err = etcd.NewWriter(etcd.WriterConfig{})
	require.ErrorContains(t, err, "Owner")
	_, err = etcd.NewReporter(etcd.ReporterConfig{TTL: 1})
	require.ErrorContains(t, err, "whole seconds")
}

// A barrier has a revision that nodes receive, even if nothing was written or the revision of a
// deletion is unknown.
func TestBarrier(t *testing.T) {
	srv, client, store := newStoreOn(t)
	w, r := &witness{}, newReceiver()
	source, _ := start(t, quick(client, w), r)
	r.waitInSync(t)
	at, err := store.Put(t.Context(), profile("a", "1"), etcd.Any)
	require.NoError(t, err)
	raw := rawClient(t, srv.url)
	// 	// A write outside of the state, like that of a report, increases the revision of the store.
	_, err = raw.Put(t.Context(), "/elsewhere", "1")
	require.NoError(t, err)
	again, err := store.Put(t.Context(), profile("a", "1"), etcd.Any)
	require.NoError(t, err)
	require.Greater(t, again, at)
	for range 2 {
		at, err = store.Barrier(t.Context())
		require.NoError(t, err)
		w.await(t, "the revision", func() bool { return source.Stats().Delivered == at })
	}
	require.Equal(t, []string{"in sync", "a=1"}, r.take())
	require.Empty(t, w.rejections())
	list, err := store.List(t.Context(), etcd.Query{})
	require.NoError(t, err)
	require.Len(t, list.Objects, 1)
	require.Empty(t, list.Problems)

	late := newReceiver()
	start(t, quick(client, w), late)
	late.waitInSync(t)
	require.Equal(t, []string{"a=1", "in sync"}, late.take())
	require.Empty(t, w.rejections())
	_, err = raw.Put(t.Context(), "/wayleave/test/state/.cluster", `{"schema":9}`)
	require.NoError(t, err)
	_, err = store.Barrier(t.Context())
	require.ErrorIs(t, err, etcd.ErrNewer)
}
