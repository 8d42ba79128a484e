// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

// policies is a receiver that sends each policy to a channel.
type policies chan *policy.Policy

func (c policies) Update(ctx context.Context, updates []policy.Update) error {
	for _, u := range updates {
		if p, ok := u.Resource.(*policy.Policy); ok {
			select {
			case c <- p:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

func (c policies) InSync(context.Context) error { return nil }

// S167: a rule in the store that this version cannot read is closed, and the other rules of the
// policy apply. A Store does not return or overwrite the policy, like any object of a newer
// version.
func TestPolicyInDoubt(t *testing.T) {
	srv, client, store := newStoreOn(t)
	raw := rawClient(t, srv.url)
	_, err := raw.Put(t.Context(), "/wayleave/test/state/Policy//p",
		`{"schema":1,"resource":{"kind":"Policy","name":"p","ingress":[{"action":"Deny","protocol":"TCP",`+
			`"destination":{"ports":[80,99999]}},{"action":"Allow","until":"noon"}]}}`)
	require.NoError(t, err)
	w, received := &witness{}, make(policies)
	source, err := etcd.NewSource(quick(client, w))
	require.NoError(t, err)
	background(t, func(ctx context.Context) error { return source.Run(ctx, received) })
	p := <-received
	require.NoError(t, p.Validate())
	require.EqualError(t, p.Doubts(), "policy: in doubt: Policy/p: ingress[0].destination.ports[1]: want a number "+
		"from 1 to 65535, not 99999; ingress[1].until: unknown field")
	require.Equal(t, []policy.Action{policy.Deny, policy.Allow},
		[]policy.Action{p.Ingress[0].Action, p.Ingress[1].Action})
	require.True(t, p.Ingress[0].Source.IsZero() && p.Ingress[0].Destination.IsZero() && p.Ingress[0].Protocol == 0,
		"it denies everything")
	require.Empty(t, w.rejections(), "the policy is not absent")
	require.Empty(t, source.Unusable())

	_, err = store.Get(t.Context(), p.Key())
	require.ErrorIs(t, err, etcd.ErrNewer)
	require.ErrorContains(t, err, "ingress[1].until: unknown field")
	_, err = store.Put(t.Context(), &policy.Policy{Name: "p"}, etcd.Any)
	require.ErrorIs(t, err, etcd.ErrNewer)
	_, err = store.Delete(t.Context(), p.Key(), etcd.Any)
	require.NoError(t, err)

	// Closed rules that a converter made can be written, read and replaced.
	p.Ingress[1].Doubts[0].Field = "spec.ingress[1].until"
	_, err = store.Put(t.Context(), p, etcd.Absent)
	require.NoError(t, err)
	require.Equal(t, p, <-received)
	got, err := store.Get(t.Context(), p.Key())
	require.NoError(t, err)
	require.Equal(t, p, got.Resource)
	_, err = store.Put(t.Context(), &policy.Policy{Name: "p"}, etcd.Any)
	require.NoError(t, err)
	require.Equal(t, &policy.Policy{Name: "p"}, <-received)
}

// S167: a Writer that reads JSON writes no object of a stream that has a closed rule or another
// error.
func TestWriterRefusesDoubts(t *testing.T) {
	_, _, store := newStoreOn(t)
	w := newWriter(t, store, "shop", func(cfg *etcd.WriterConfig) { cfg.Decode = nil })
	_, err := w.Write(t.Context(), "p.json",
		[]byte(`{"kind":"Policy","name":"p","ingress":[{"action":"Deny","ports":[80]}]}`))
	var stream *etcd.StreamError
	require.ErrorAs(t, err, &stream)
	require.ErrorContains(t, err, "ingress[0].ports: unknown field")
	_, err = store.Get(t.Context(), policy.Key{Kind: policy.KindPolicy, Name: "p"})
	require.ErrorIs(t, err, etcd.ErrNotFound)
}
