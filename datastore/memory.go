// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/policy"
)

var (
	_ Source = (*Memory)(nil)
	_ Sink   = (*Memory)(nil)
)

// Memory keeps the desired state in memory. The zero value is empty and ready.
//
// The changes of one Update reach each receiver in one call, possibly together with other changes. A
// receiver that is slower than the changes gets only the latest value of each object, so its backlog is
// never larger than the state. It never receives a value that it has already.
//
// It is safe for concurrent use. Run may be called several times at once, one for each receiver.
type Memory struct {
	mu      sync.Mutex
	objects map[policy.Key]policy.Resource
	runs    map[*memoryRun]struct{}
}

// memoryRun is one run's view. Its maps belong to Memory's lock.
type memoryRun struct {
	sent    map[policy.Key]policy.Resource // the last values that the receiver got
	pending map[policy.Key]struct{}        // the keys with another value now
	wake    chan struct{}                  // holds a token while there are pending keys
}

// Update makes all changes at once. Of several for one key, the last counts. It never waits for a
// receiver, and does not validate the resources.
//
// Errors, after which nothing is changed: ErrKeyMismatch if the key of an update is not that of its resource, or
// the error of ctx.
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

// Run sends the receiver the content, InSync, and then each change; see Source. The content counts as the
// complete state, so call Update with all objects first. It returns the error of ctx or of the receiver.
func (m *Memory) Run(ctx context.Context, r Receiver) error {
	run := m.join()
	defer m.leave(run)
	for inSync := false; ; inSync = true {
		if err := ctx.Err(); err != nil {
			return err
		}
		if updates := m.take(run); len(updates) > 0 {
			if err := r.Update(ctx, updates); err != nil {
				return err
			}
		}
		if !inSync {
			if err := r.InSync(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-run.wake:
		}
	}
}

func (m *Memory) join() *memoryRun {
	run := &memoryRun{
		sent:    map[policy.Key]policy.Resource{},
		pending: map[policy.Key]struct{}{},
		wake:    make(chan struct{}, 1),
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
}

// take returns what the receiver does not know yet, sorted by key, and regards it as told.
func (m *Memory) take(run *memoryRun) []policy.Update {
	m.mu.Lock()
	defer m.mu.Unlock()
	updates := make([]policy.Update, 0, len(run.pending))
	for key := range run.pending {
		now := m.objects[key]
		if run.sent[key] = now; now == nil {
			delete(run.sent, key)
		}
		updates = append(updates, policy.Update{Key: key, Resource: now})
	}
	clear(run.pending)
	slices.SortFunc(updates, func(a, b policy.Update) int { return a.Key.Compare(b.Key) })
	return updates
}

// markLocked takes a key into the pending ones if the receiver knows it differently, and out of
// them if not.
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

// absent reports whether a resource is nil, or a nil pointer of some kind.
func absent(r policy.Resource) bool { return policy.Equal(r, nil) }
