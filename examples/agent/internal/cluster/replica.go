// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/policy"
)

// replica is what the store said last. It outlives the pipelines: one that starts anew while the
// store cannot be read goes on with it. The endpoints of other nodes, most of it, are kept packed.
//
// It belongs to the source that runs.
type replica struct {
	said   packed.Objects
	inSync bool // said was complete once
}

// most is how many objects are told in one call, of those that are known from before.
const most = 5000

// begin tells a receiver what is known from before, if that is complete, and returns a receiver for
// what the store says from the beginning again, which passes on the differences.
func (r *replica) begin(ctx context.Context, out datastore.Receiver) (datastore.Receiver, error) {
	f := &refresher{replica: r, out: out, seen: map[policy.Key]struct{}{}}
	if !r.inSync {
		r.said = packed.Objects{}
		return f, nil
	}
	for keys := range slices.Chunk(r.said.Keys(), most) {
		var updates []policy.Update
		for _, key := range keys {
			updates = append(updates, policy.Update{Key: key, Resource: packed.Unpack(r.said.Get(key))})
		}
		if err := out.Update(ctx, updates); err != nil {
			return nil, err
		}
	}
	return f, out.InSync(ctx)
}

// refresher takes what the store says from the beginning.
type refresher struct {
	*replica
	out  datastore.Receiver
	seen map[policy.Key]struct{} // what the store has told of; nil once it has told all
}

// Update passes on what is not known.
func (f *refresher) Update(ctx context.Context, updates []policy.Update) error {
	var news []policy.Update
	for _, u := range updates {
		if f.seen != nil {
			f.seen[u.Key] = struct{}{}
		}
		now := packed.Pack(u.Resource)
		if !packed.Equal(f.said.Get(u.Key), now) {
			news = append(news, u)
			f.said.Set(u.Key, now)
		}
	}
	if len(news) == 0 {
		return nil
	}
	return f.out.Update(ctx, news)
}

// InSync passes on that what the store did not tell of is gone, and that all is known, unless that
// was so before.
func (f *refresher) InSync(ctx context.Context) error {
	var gone []policy.Update
	for _, key := range f.said.Keys() {
		if _, ok := f.seen[key]; !ok {
			gone = append(gone, policy.Update{Key: key})
			f.said.Delete(key)
		}
	}
	f.seen = nil
	if len(gone) > 0 {
		if err := f.out.Update(ctx, gone); err != nil {
			return err
		}
	}
	if f.inSync {
		return nil
	}
	f.inSync = true
	return f.out.InSync(ctx)
}
