// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/policy"
)

// replica keeps the objects that were last read from etcd, so that a new pipeline can start while
// etcd is unavailable. It outlives a pipeline. It stores endpoints in a packed form.
//
// Only the source that runs may use it.
type replica struct {
	objects packed.Objects
	inSync  bool // objects was complete once
}

// maxUpdates is the maximum number of kept objects that are sent in one call of the receiver.
const maxUpdates = 5000

// begin sends the kept objects to out, if they are complete. It returns a receiver for a complete
// list from etcd, and for later changes. That receiver sends to out only the differences from the
// kept objects.
func (r *replica) begin(ctx context.Context, out datastore.Receiver) (datastore.Receiver, error) {
	f := &refresher{replica: r, out: out, seen: map[policy.Key]struct{}{}}
	if !r.inSync {
		r.objects = packed.Objects{}
		return f, nil
	}
	for keys := range slices.Chunk(r.objects.Keys(), maxUpdates) {
		var updates []policy.Update
		for _, key := range keys {
			updates = append(updates, policy.Update{Key: key, Resource: packed.Unpack(r.objects.Get(key))})
		}
		if err := out.Update(ctx, updates); err != nil {
			return nil, err
		}
	}
	return f, out.InSync(ctx)
}

// refresher receives a complete list from etcd, and then changes.
type refresher struct {
	*replica
	out  datastore.Receiver
	seen map[policy.Key]struct{} // the keys in the list so far; nil after the end of the list
}

// Update sends the objects that differ from the kept ones.
func (f *refresher) Update(ctx context.Context, updates []policy.Update) error {
	var news []policy.Update
	for _, u := range updates {
		if f.seen != nil {
			f.seen[u.Key] = struct{}{}
		}
		now := packed.Pack(u.Resource)
		if !packed.Equal(f.objects.Get(u.Key), now) {
			news = append(news, u)
			f.objects.Set(u.Key, now)
		}
	}
	if len(news) == 0 {
		return nil
	}
	return f.out.Update(ctx, news)
}

// InSync is called at the end of the list from etcd. It sends a deletion for each object that the
// replica has but the list does not. Then it calls f.out.InSync, unless f.begin has already called
// it.
func (f *refresher) InSync(ctx context.Context) error {
	var gone []policy.Update
	for _, key := range f.objects.Keys() {
		if _, ok := f.seen[key]; !ok {
			gone = append(gone, policy.Update{Key: key})
			f.objects.Delete(key)
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
