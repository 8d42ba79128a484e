// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/policy"
)

var (
	_ Source = (*Memory)(nil)
	_ Sink   = (*Memory)(nil)
)

// Memory keeps the desired state in memory. The zero value is empty and ready to use.
//
// The changes of one Update reach each receiver in one call, possibly together with other changes.
// A slow receiver gets only the latest value of each object, so its backlog is never larger than
// the state. A receiver never gets a value that it already has.
//
// A Memory is safe for concurrent use. Run may be called several times at once, once for each
// receiver.
type Memory struct {
	mu      sync.Mutex
	objects map[policy.Key]policy.Resource
	runs    map[*memoryRun]struct{}
	updates uint64        // calls of Update so far
	changed chan struct{} // closed and replaced when a run has delivered something or ends; nil before the first
}

// memoryRun is the state of one call of Run. The lock of Memory guards all fields but receiver and
// wake.
type memoryRun struct {
	receiver  Receiver
	sent      map[policy.Key]policy.Resource // the last value of each object that the receiver got
	pending   map[policy.Key]struct{}        // the keys whose value differs from the sent one
	wake      chan struct{}                  // holds a token while there are pending keys
	idle      bool                           // no call of the receiver is in progress, and it is in sync
	delivered uint64                         // the number of calls of Update whose values the receiver has
}

// Update makes all changes at once. If several updates have the same key, Update uses the last one.
// It never waits for a receiver, and does not validate the resources.
//
// Update returns ErrKeyMismatch if the key of an update is not the key of its resource, and the
// error of ctx if ctx is done. If it returns an error, it has changed nothing.
func (m *Memory) Update(ctx context.Context, updates []policy.Update) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, u := range updates {
		if !absent(u.Resource) && u.Resource.Key() != u.Key {
			return fmt.Errorf("datastore: update %s: %w %s", u.Key, ErrKeyMismatch, u.Resource.Key())
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.updates++
	for _, u := range updates {
		m.setLocked(u)
	}
	for run := range m.runs {
		for _, u := range updates {
			run.markLocked(u.Key, m.objects[u.Key])
		}
		run.signalLocked()
	}
	return nil
}

// World returns all objects by key. The map belongs to the caller; do not change the resources.
func (m *Memory) World() map[policy.Key]policy.Resource {
	m.mu.Lock()
	defer m.mu.Unlock()
	world := make(map[policy.Key]policy.Resource, len(m.objects))
	maps.Copy(world, m.objects)
	return world
}

func (m *Memory) setLocked(u policy.Update) {
	if absent(u.Resource) {
		delete(m.objects, u.Key)
		return
	}
	if m.objects == nil {
		m.objects = map[policy.Key]policy.Resource{}
	}
	m.objects[u.Key] = u.Resource
}

// Run sends the content to the receiver, calls InSync, and then sends each change, as Source
// describes. InSync marks the content as complete, so call Update with all objects before Run. Run
// returns the error of ctx or of the receiver.
func (m *Memory) Run(ctx context.Context, r Receiver) error {
	run := m.join(r)
	defer m.leave(run)
	for inSync := false; ; inSync = true {
		if err := ctx.Err(); err != nil {
			return err
		}
		updates, upTo := m.take(run)
		if len(updates) > 0 {
			if err := r.Update(ctx, updates); err != nil {
				return err
			}
		}
		if !inSync {
			if err := r.InSync(ctx); err != nil {
				return err
			}
		}
		m.deliver(run, upTo)
		select {
		case <-ctx.Done():
		case <-run.wake:
		}
	}
}

// Barrier waits until the changes of all earlier calls of Update have passed through the receivers.
// First, it waits until every receiver has them. Then it calls the method Barrier of each receiver
// that has one, such as a calcgraph.Runner. The Runner's Barrier returns when the Runner has sent
// all events of these changes, usually to a dataplane.Driver. So a later call of the Driver's
// WaitEndpoint or WaitRemoved waits for these changes, too. While there is no receiver, Barrier
// blocks.
//
// Barrier returns the error of the context, or the errors of the receivers.
func (m *Memory) Barrier(ctx context.Context) error {
	receivers, err := m.delivered(ctx)
	if err != nil {
		return err
	}
	for _, r := range receivers {
		if err := Barrier(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// delivered waits until every receiver has the changes of all earlier calls of Update, and returns
// the receivers.
func (m *Memory) delivered(ctx context.Context) ([]Receiver, error) {
	m.mu.Lock()
	target := m.updates
	for {
		if m.changed == nil {
			m.changed = make(chan struct{})
		}
		changed, receivers := m.changed, m.receiversLocked(target)
		m.mu.Unlock()
		if len(receivers) > 0 {
			return receivers, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
		m.mu.Lock()
	}
}

// receiversLocked returns all receivers if each of them has the changes of the first calls of
// Update. updates is the number of these calls. Otherwise it returns nil.
func (m *Memory) receiversLocked(updates uint64) (receivers []Receiver) {
	for run := range m.runs {
		if run.delivered < updates && (!run.idle || len(run.pending) > 0) {
			return nil
		}
		receivers = append(receivers, run.receiver)
	}
	return receivers
}

// deliver records that a receiver has the changes of the given number of calls of Update.
func (m *Memory) deliver(run *memoryRun, updates uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	run.delivered, run.idle = updates, true
	m.wakeLocked()
}

// wakeLocked wakes the callers that wait in Barrier.
func (m *Memory) wakeLocked() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

func (m *Memory) join(r Receiver) *memoryRun {
	run := &memoryRun{
		receiver: r,
		sent:     map[policy.Key]policy.Resource{},
		pending:  map[policy.Key]struct{}{},
		wake:     make(chan struct{}, 1),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.objects {
		run.pending[key] = struct{}{}
	}
	if m.runs == nil {
		m.runs = map[*memoryRun]struct{}{}
	}
	m.runs[run] = struct{}{}
	return run
}

func (m *Memory) leave(run *memoryRun) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.runs, run)
	m.wakeLocked()
}

// take returns the updates that the receiver lacks, sorted by key, and records them as sent. The
// result upTo is the number of calls of Update that these updates include.
func (m *Memory) take(run *memoryRun) (updates []policy.Update, upTo uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	run.idle = false
	updates = make([]policy.Update, 0, len(run.pending))
	for key := range run.pending {
		now := m.objects[key]
		if run.sent[key] = now; now == nil {
			delete(run.sent, key)
		}
		updates = append(updates, policy.Update{Key: key, Resource: now})
	}
	clear(run.pending)
	slices.SortFunc(updates, func(a, b policy.Update) int { return a.Key.Compare(b.Key) })
	return updates, m.updates
}

// markLocked adds a key to pending if the receiver does not have the value now yet. Otherwise it
// removes the key from pending.
func (r *memoryRun) markLocked(key policy.Key, now policy.Resource) {
	if policy.Equal(r.sent[key], now) {
		delete(r.pending, key)
		return
	}
	r.pending[key] = struct{}{}
}

func (r *memoryRun) signalLocked() {
	if len(r.pending) == 0 {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// absent reports whether a resource is nil or a nil pointer.
func absent(r policy.Resource) bool { return policy.Equal(r, nil) }
