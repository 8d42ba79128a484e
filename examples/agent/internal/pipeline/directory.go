// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/policy"
)

// maxUpdates limits how many objects of a previous pipeline are sent in one call.
const maxUpdates = 5000

// directory is a source that reads a directory. If the directory cannot be read at the start, it
// sends the objects that the previous pipeline had from the directory. If there was no previous
// pipeline, it waits until the directory can be read.
type directory struct {
	config datastore.DirConfig

	mu       sync.Mutex
	previous *packed.Objects // nil if there are none, or once the directory has been read
	err      error           // why the directory cannot be read
}

func newDirectory(cfg datastore.DirConfig, previous *packed.Objects) (*directory, error) {
	cfg.Wait = true
	_, err := datastore.NewDir(cfg) // checks the configuration
	return &directory{config: cfg, previous: previous}, err
}

// Run runs the source; see datastore.Source.
func (f *directory) Run(ctx context.Context, out datastore.Receiver) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &directoryReceiver{directory: f, out: out}
	cfg := f.config
	cfg.Unreadable = func(cause error) {
		f.setCause(cause)
		if f.config.Unreadable != nil {
			f.config.Unreadable(cause)
		}
		if cause != nil && !r.synced {
			if err := r.replay(ctx); err != nil {
				cancel(err)
			}
		}
	}
	dir, err := datastore.NewDir(cfg)
	if err != nil {
		return err
	}
	err = dir.Run(ctx, r)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (f *directory) setCause(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = cause
}

// cause returns why the directory cannot be read; nil if it can.
func (f *directory) cause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// previousObjects returns the objects of the previous pipeline; nil once the directory has been
// read.
func (f *directory) previousObjects() *packed.Objects {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.previous
}

func (f *directory) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.previous = nil
}

// directoryReceiver receives the directory's objects. It belongs to the goroutine of the
// directory's Run.
type directoryReceiver struct {
	*directory
	out      datastore.Receiver
	synced   bool            // the directory has been read once
	replayed *packed.Objects // the objects that replay sent; nil if there are none
	found    []policy.Update // the directory's content, collected after replay
}

// replay sends the objects that the previous pipeline had from the directory, once.
func (r *directoryReceiver) replay(ctx context.Context) error {
	previous := r.previousObjects()
	if previous == nil || r.replayed != nil {
		return nil
	}
	for keys := range slices.Chunk(previous.Keys(), maxUpdates) {
		var updates []policy.Update
		for _, key := range keys {
			updates = append(updates, policy.Update{Key: key, Resource: packed.Unpack(previous.Get(key))})
		}
		if err := r.out.Update(ctx, updates); err != nil {
			return err
		}
	}
	r.replayed = previous
	return r.out.InSync(ctx)
}

// Update sends the directory's objects on to the receiver, with one exception. If the directory
// could not be read at the start, replay may have sent the objects of the previous pipeline
// (Config.Previous) instead. Then Update only collects the objects. Once the whole directory has
// been read, InSync sends all differences in one call.
func (r *directoryReceiver) Update(ctx context.Context, updates []policy.Update) error {
	if r.replayed != nil {
		r.found = append(r.found, updates...)
		return nil
	}
	return r.out.Update(ctx, updates)
}

// InSync sends the collected updates, with removals of the replayed objects that are no longer in
// the directory.
func (r *directoryReceiver) InSync(ctx context.Context) error {
	r.forget()
	r.synced = true
	if r.replayed == nil {
		return r.out.InSync(ctx)
	}
	held := map[policy.Key]struct{}{}
	for _, u := range r.found {
		held[u.Key] = struct{}{}
	}
	updates := r.found
	for _, key := range r.replayed.Keys() {
		if _, ok := held[key]; !ok {
			updates = append(updates, policy.Update{Key: key})
		}
	}
	r.found, r.replayed = nil, nil
	if len(updates) == 0 {
		return nil
	}
	return r.out.Update(ctx, updates)
}
