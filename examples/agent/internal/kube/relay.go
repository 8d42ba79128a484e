// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/policy"
)

var (
	_ datastore.Receiver = (*relay)(nil)
	_ datastore.Source   = (*relay)(nil)
)

// maxUpdates is the maximum number of kept objects that are sent in one call.
const maxUpdates = 5000

// relay connects a source that runs only once to pipelines that run one after the other. It is the
// receiver of this source, and it is the source of the pipelines. It keeps the objects, so that it
// can send them to the next pipeline. It is safe for concurrent use.
type relay struct {
	// ready is closed when a pipeline may receive the objects. Nil means that a pipeline may
	// receive them at once.
	ready <-chan struct{}

	sending sync.Mutex // held while a receiver is called
	objects packed.Objects
	inSync  bool

	mu      sync.Mutex    // locked after sending, never before
	out     *output       // nil while no pipeline has all objects
	changed chan struct{} // closed and replaced when out changes
}

// output is the receiver of a pipeline, and the context of its run.
type output struct {
	ctx      context.Context
	receiver datastore.Receiver
	failed   chan error
}

func newRelay() *relay { return &relay{changed: make(chan struct{})} }

// sendLocked calls the receiver of the pipeline. If the receiver fails, it is not called again, and
// its pipeline ends.
func (r *relay) sendLocked(call func(*output) error) {
	out, _ := r.current()
	if out == nil {
		return
	}
	if err := call(out); err != nil {
		r.set(nil)
		out.failed <- err
	}
}

func (r *relay) current() (out *output, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out, r.changed
}

func (r *relay) set(out *output) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out = out
	close(r.changed)
	r.changed = make(chan struct{})
}

// Update records updates and sends them to the pipeline.
func (r *relay) Update(_ context.Context, updates []policy.Update) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	for _, u := range updates {
		r.objects.Set(u.Key, packed.Pack(u.Resource))
	}
	r.sendLocked(func(o *output) error { return o.receiver.Update(o.ctx, updates) })
	return nil
}

// InSync records that all objects are known, and calls InSync of the pipeline.
func (r *relay) InSync(context.Context) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	r.inSync = true
	r.sendLocked(func(o *output) error { return o.receiver.InSync(o.ctx) })
	return nil
}

// Run sends the kept objects to a receiver, and then the changes; see datastore.Source.
func (r *relay) Run(ctx context.Context, receiver datastore.Receiver) error {
	if r.ready != nil {
		select {
		case <-r.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	out := &output{ctx, receiver, make(chan error, 1)}
	if err := r.begin(out); err != nil {
		return err
	}
	defer r.end(out)
	select {
	case err := <-out.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin sends the kept objects to a receiver, and makes it the receiver of changes.
func (r *relay) begin(out *output) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	for keys := range slices.Chunk(r.objects.Keys(), maxUpdates) {
		var updates []policy.Update
		for _, key := range keys {
			updates = append(updates, policy.Update{Key: key, Resource: packed.Unpack(r.objects.Get(key))})
		}
		if err := out.receiver.Update(out.ctx, updates); err != nil {
			return err
		}
	}
	if r.inSync {
		if err := out.receiver.InSync(out.ctx); err != nil {
			return err
		}
	}
	r.set(out)
	return nil
}

func (r *relay) end(out *output) {
	r.sending.Lock()
	defer r.sending.Unlock()
	if now, _ := r.current(); now == out {
		r.set(nil)
	}
}

// Barrier waits until a pipeline has received all updates that the relay received before the call.
// Errors: the error of ctx, or an error of the pipeline.
func (r *relay) Barrier(ctx context.Context) error {
	for {
		out, changed := r.current()
		if out != nil {
			return datastore.Barrier(ctx, out.receiver)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
