// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

// maxPending is the number of pending updates from which on readers wait.
const maxPending = 20_000

// queue has the pending updates for the receiver, the latest one of each key.
type queue struct {
	mu      sync.Mutex
	pending map[policy.Key]policy.Resource
	// complete is set once all objects have been pushed; inSync, once the receiver has them.
	complete, inSync bool
	// pushed counts calls of push. delivered counts those whose updates the receiver has.
	pushed, delivered uint64
	receiver          datastore.Receiver // nil while Run does not run
	// changed is closed and replaced at every change.
	changed chan struct{}
}

func newQueue() *queue {
	return &queue{pending: map[policy.Key]policy.Resource{}, changed: make(chan struct{})}
}

// signalLocked wakes all waiting goroutines.
func (q *queue) signalLocked() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// push adds updates. Each replaces a pending one of its key.
func (q *queue) push(updates ...policy.Update) {
	if len(updates) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, u := range updates {
		q.pending[u.Key] = u.Resource
	}
	q.pushed++
	q.signalLocked()
}

// setComplete records that all objects have been pushed.
func (q *queue) setComplete() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.complete = true
	q.signalLocked()
}

// wait waits until a condition holds. It checks the condition under the lock.
func (q *queue) wait(ctx context.Context, ok func() bool) error {
	q.mu.Lock()
	for !ok() {
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
		q.mu.Lock()
	}
	q.mu.Unlock()
	return nil
}

// waitForRoom waits until fewer than maxPending updates are pending.
func (q *queue) waitForRoom(ctx context.Context) error {
	return q.wait(ctx, func() bool { return len(q.pending) < maxPending })
}

// deliver sends the updates to a receiver until ctx is done or the receiver fails.
func (q *queue) deliver(ctx context.Context, r datastore.Receiver) error {
	for {
		err := q.wait(ctx, func() bool { return len(q.pending) > 0 || q.complete && !q.inSync })
		if err != nil {
			return err
		}
		updates, pushed, inSync := q.take()
		if len(updates) > 0 {
			if err := r.Update(ctx, updates); err != nil {
				return err
			}
		}
		if inSync {
			if err := r.InSync(ctx); err != nil {
				return err
			}
		}
		q.mu.Lock()
		q.delivered, q.inSync = pushed, q.inSync || inSync
		q.signalLocked()
		q.mu.Unlock()
	}
}

// take removes the updates and returns them, sorted by key, with the number of pushes so far.
// The result inSync is set if the receiver is in sync for the first time once it has the updates.
func (q *queue) take() (updates []policy.Update, pushed uint64, inSync bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	updates = make([]policy.Update, 0, len(q.pending))
	for key, r := range q.pending {
		updates = append(updates, policy.Update{Key: key, Resource: r})
	}
	q.pending = map[policy.Key]policy.Resource{} // a new one, because a map does not shrink
	q.signalLocked()                             // there is room
	slices.SortFunc(updates, func(a, b policy.Update) int { return a.Key.Compare(b.Key) })
	return updates, q.pushed, q.complete && !q.inSync
}

// setReceiver sets the receiver; nil when Run ends.
func (q *queue) setReceiver(r datastore.Receiver) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.receiver = r
	q.signalLocked()
}

// barrier waits until the receiver is in sync and has all that was pushed before the call. Then it
// calls the receiver's own Barrier.
func (q *queue) barrier(ctx context.Context) error {
	q.mu.Lock()
	target := q.pushed
	q.mu.Unlock()
	var r datastore.Receiver
	err := q.wait(ctx, func() bool {
		r = q.receiver
		return r != nil && q.inSync && q.delivered >= target
	})
	if err != nil {
		return err
	}
	return datastore.Barrier(ctx, r)
}
