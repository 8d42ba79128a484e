// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

var errHarmless = errors.New("harmless")

// decodeLines decodes "a=1 b=2" as profiles. "!" is an error, "?" one that is ignored.
func decodeLines(_ string, data []byte) (resources []policy.Resource, problems []error) {
	for _, word := range strings.Fields(string(data)) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "!":
			problems = append(problems, errors.New("no such kind"))
		case "?":
			problems = append(problems, errHarmless)
		case "endpoint":
			resources = append(resources, &policy.WorkloadEndpoint{Name: value, Node: "n1", Interface: "cali" + value})
		case "policy":
			resources = append(resources, &policy.Policy{Name: value})
		default:
			resources = append(resources, profile(name, value))
		}
	}
	return resources, problems
}

func newWriter(t testing.TB, store *etcd.Store, owner string, change ...func(*etcd.WriterConfig)) *etcd.Writer {
	cfg := etcd.WriterConfig{Store: store, Owner: owner, Decode: decodeLines, Ignore: func(err error) bool {
		return errors.Is(err, errHarmless)
	}}
	for _, f := range change {
		f(&cfg)
	}
	w, err := etcd.NewWriter(cfg)
	require.NoError(t, err)
	return w
}

func content(t testing.TB, store *etcd.Store) string {
	list, err := store.List(t.Context(), etcd.Query{Kind: policy.KindProfile})
	require.NoError(t, err)
	var words []string
	for _, o := range list.Objects {
		p := o.Resource.(*policy.Profile)
		words = append(words, fmt.Sprintf("%s=%s(%s)", p.Name, p.LabelsToApply["v"], o.Owner))
	}
	return strings.Join(words, " ")
}

func TestWriterUpsertsAndPrunes(t *testing.T) {
	_, _, store := newStoreOn(t)
	ctx := t.Context()
	shop, bank := newWriter(t, store, "shop"), newWriter(t, store, "bank")
	update(t, store, set("z", "0"))
	result, err := shop.Write(ctx, "shop.yaml", []byte("a=1 b=1 c=1 ?"))
	require.NoError(t, err)
	require.Equal(t, 3, result.Objects)
	require.Empty(t, result.Pruned)
	_, err = bank.Write(ctx, "bank.yaml", []byte("d=1"))
	require.NoError(t, err)

	again, err := shop.Write(ctx, "shop.yaml", []byte("a=1 b=1 c=1"))
	require.NoError(t, err)
	require.Less(t, again.Revision-result.Revision, etcd.Revision(2), "nothing was written")
	now, err := shop.Write(ctx, "shop.yaml", []byte("b=2 e=1"))
	require.NoError(t, err)
	require.Equal(t, []policy.Key{profile("a", "").Key(), profile("c", "").Key()}, now.Pruned)
	require.Equal(t, "b=2(shop) d=1(bank) e=1(shop) z=0()", content(t, store))
	require.Equal(t, now.Revision-again.Revision, etcd.Revision(1), "in one transaction")

	// If a stream has an error, is empty, or has an object of another owner, nothing is written.
	var wrong *etcd.StreamError
	_, err = shop.Write(ctx, "shop.yaml", []byte("b=3 !"))
	require.ErrorAs(t, err, &wrong)
	require.EqualError(t, err, "etcd: write stream shop.yaml: nothing was written: no such kind")
	_, err = shop.Write(ctx, "shop.yaml", []byte("b=3 b=4"))
	require.ErrorAs(t, err, &wrong)
	_, err = shop.Write(ctx, "shop.yaml", []byte("b=3 policy=a/b"))
	require.ErrorAs(t, err, &wrong)
	_, err = shop.Write(ctx, "shop.yaml", nil)
	require.ErrorIs(t, err, etcd.ErrEmptyStream)
	for _, foreign := range []string{"d", "z"} {
		_, err = shop.Write(ctx, "shop.yaml", []byte("b=3 "+foreign+"=3"))
		require.ErrorIs(t, err, etcd.ErrOwned)
	}
	require.Equal(t, "b=2(shop) d=1(bank) e=1(shop) z=0()", content(t, store))

	// An object that Put writes keeps its owner. An adopted object has a new owner.
	update(t, store, set("b", "9"), unset("e"))
	require.Equal(t, "b=9(shop) d=1(bank) z=0()", content(t, store))
	adopting := newWriter(t, store, "shop", func(c *etcd.WriterConfig) { c.Adopt, c.AllowEmpty = true, true })
	_, err = adopting.Write(ctx, "shop.yaml", []byte("b=3 d=3 z=3"))
	require.NoError(t, err)
	require.Equal(t, "b=3(shop) d=3(shop) z=3(shop)", content(t, store))
	result, err = newWriter(t, store, "bank", func(c *etcd.WriterConfig) { c.AllowEmpty = true }).Write(ctx,
		"bank.yaml", nil)
	require.NoError(t, err)
	require.Empty(t, result.Pruned)
	result, err = adopting.Write(ctx, "shop.yaml", nil)
	require.NoError(t, err)
	require.Len(t, result.Pruned, 3)
	require.Empty(t, content(t, store))
}

// If a stream takes several transactions, no endpoint exists without its policies in between.
func TestWriterOrder(t *testing.T) {
	_, client, store := newStoreOn(t)
	var words []string
	for i := range 50 {
		words = append(words, fmt.Sprint("endpoint=e", i), fmt.Sprint("policy=p", i), fmt.Sprintf("q%d=1", i))
	}
	r := newReceiver()
	seen := map[policy.Kind]int{}
	var early []string
	r.onBatch = func(updates []policy.Update) {
		for _, u := range updates {
			if u.Resource == nil {
				seen[u.Key.Kind]--
			} else {
				seen[u.Key.Kind]++
			}
		}
		if seen[policy.KindWorkloadEndpoint] > 0 && seen[policy.KindPolicy] < 50 {
			early = append(early, fmt.Sprint(seen))
		}
	}
	start(t, quick(client, nil), r)
	r.waitInSync(t)
	writer := newWriter(t, store, "big", func(c *etcd.WriterConfig) { c.AllowEmpty = true })
	result, err := writer.Write(t.Context(), "big.yaml", []byte(strings.Join(words, " ")))
	require.NoError(t, err)
	require.Equal(t, 150, result.Objects)
	counts := func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		return fmt.Sprint(seen[policy.KindProfile], seen[policy.KindPolicy], seen[policy.KindWorkloadEndpoint])
	}
	r.await(t, "all of it", func() bool { return counts() == "50 50 50" })
	result, err = writer.Write(t.Context(), "big.yaml", nil)
	require.NoError(t, err)
	require.Len(t, result.Pruned, 150)
	r.await(t, "nothing", func() bool { return counts() == "0 0 0" })
	require.Empty(t, early)
}

// meddlingKV calls a function once, before one of the transactions.
type meddlingKV struct {
	clientv3.KV
	meddle func()
	after  int
}

func (m *meddlingKV) Txn(ctx context.Context) clientv3.Txn {
	if m.after--; m.after == -1 {
		m.meddle()
	}
	return m.KV.Txn(ctx)
}

// A Writer does not delete an owner key that another Writer has just written again.
func TestWriterKeepsRewrittenOwnerKey(t *testing.T) {
	srv, _, store := newStoreOn(t)
	ctx := t.Context()
	write := func(w *etcd.Writer, stream string) etcd.Result {
		t.Helper()
		result, err := w.Write(ctx, "shop.yaml", []byte(stream))
		require.NoError(t, err)
		return result
	}
	shop := newWriter(t, store, "shop")
	write(shop, "a=1 b=1")
	raw := rawClient(t, srv.url)
	_, err := raw.Delete(ctx, "/wayleave/test/state/Profile//a") // the object without its owner key
	require.NoError(t, err)
	raw.KV = &meddlingKV{KV: raw.KV, meddle: func() { write(shop, "a=2 b=1") }}
	write(newWriter(t, newStore(t, newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"})), "shop"), "b=2")
	require.Equal(t, "a=2(shop) b=2(shop)", content(t, store))
	require.Equal(t, []policy.Key{profile("a", "").Key()}, write(shop, "b=2").Pruned)
	require.Equal(t, "b=2(shop)", content(t, store))

	// An owner key that was not written again is deleted.
	write(shop, "a=3 b=2")
	_, err = raw.Delete(ctx, "/wayleave/test/state/Profile//a")
	require.NoError(t, err)
	require.Empty(t, write(shop, "b=2").Pruned)
	keys, err := raw.Get(ctx, "/wayleave/test/owners/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	require.Equal(t, int64(1), keys.Count)
}

// If Store.Delete deletes an object of a stream, it also deletes the owner key.
func TestDeletedObjectLeavesNoOwnerKey(t *testing.T) {
	srv, _, store := newStoreOn(t)
	_, err := newWriter(t, store, "shop").Write(t.Context(), "", []byte("a=1"))
	require.NoError(t, err)
	raw := rawClient(t, srv.url)
	for _, want := range []int64{1, 0} {
		keys, err := raw.Get(t.Context(), "/wayleave/test/owners/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		require.NoError(t, err)
		require.Equal(t, want, keys.Count)
		_, err = store.Delete(t.Context(), profile("a", "").Key(), etcd.Any)
		require.NoError(t, err)
	}
}
