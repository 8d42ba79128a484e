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
// What one Update changes reaches each receiver in one piece, possibly together with
// other changes. A receiver that is slower than the changes gets the latest value of each object
// only, so that what waits for it never outgrows the state itself. It is never told what it was
// told already.
//
// It is safe for concurrent use, and may run any number of times at once.
type Memory struct {
	mu      sync.Mutex
	objects map[policy.Key]policy.Resource
	runs    map[*memoryRun]struct{}
}

// memoryRun is one run's view. Its maps belong to Memory's lock.
type memoryRun struct {
	told    map[policy.Key]policy.Resource // what the receiver knows
	pending map[policy.Key]struct{}        // where that is no longer true
	wake    chan struct{}                  // holds a token while something is pending
}

// Update makes the changes, all at once. It never waits for a receiver. Where an update's key
// is not that of its resource nothing is changed and ErrKeyMismatch returned; the resources are not
// validated. If ctx is done its error is returned.
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

// Run tells the receiver the content and then its changes, see Source. It returns
// the error of ctx or of the receiver.
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
		told:    map[policy.Key]policy.Resource{},
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
		if run.told[key] = now; now == nil {
			delete(run.told, key)
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
	if policy.Equal(r.told[key], now) {
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
