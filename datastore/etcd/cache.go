// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wayleave/wayleave/policy"
)

// cache has the state of the store, the state of the receiver, and the pending changes. It keeps
// hashes of the values, not the values: about 150 bytes an object, besides pending changes.
//
//	feed ──merge──▶ pending (the latest of each object) ──take──▶ receiver
//
// It is safe for concurrent use by one feed and one deliverer.
type cache struct {
	seed  maphash.Seed
	limit int

	mu      sync.Mutex
	entries map[policy.Key]entry
	pending map[policy.Key]policy.Resource
	// Objects whose value in the store cannot be used; they are absent for the receiver.
	unusable   map[policy.Key]error
	list       uint32        // the number of the current list
	revision   int64         // of the state with all pending changes, if synced is true
	history    *History      // the history of the revision
	synced     bool          // the state is complete
	waiting    time.Time     // the time of the oldest pending change; zero if there is none
	delivering time.Time     // the same of the changes that are being delivered
	wake       chan struct{} // holds a token if changes may be pending
	room       chan struct{} // closed and replaced when take empties pending
}

// entry has the hashes of one object. Hash 0 means absent.
type entry struct {
	stored    uint64 // of the value in the store
	wanted    uint64 // equal to stored, or 0 if that value cannot be used
	delivered uint64 // of the value that the receiver has
	list      uint32 // the last list that had the object
}

// change is the new state of one object. A nil value means that it was deleted.
type change struct {
	key      policy.Key
	value    []byte
	resource policy.Resource // nil if the value cannot be used
	err      error           // why the value cannot be used
}

func newCache(limit int) *cache {
	return &cache{
		seed:     maphash.MakeSeed(),
		limit:    limit,
		entries:  map[policy.Key]entry{},
		pending:  map[policy.Key]policy.Resource{},
		unusable: map[policy.Key]error{},
		wake:     make(chan struct{}, 1),
		room:     make(chan struct{}),
	}
}

// hash returns the hash of a value; never 0.
func (b *cache) hash(value []byte) uint64 { return maphash.Bytes(b.seed, value) | 1 }

// known reports whether the store had this value before. If so, it records that the current list
// has the object.
func (b *cache) known(key policy.Key, value []byte) bool {
	hash := b.hash(value)
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.entries[key]
	if !ok || e.stored != hash {
		return false
	}
	e.list = b.list
	b.entries[key] = e
	return true
}

// startList begins a new list.
func (b *cache) startList() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list++
}

// merge adds changes to the pending ones, all at once.
func (b *cache) merge(changes []change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range changes {
		b.setLocked(c)
	}
	b.signal()
}

// endList merges the last changes of a list, removes objects that the list does not have, and marks
// the state as complete.
func (b *cache) endList(changes []change, revision int64, history *History) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range changes {
		b.setLocked(c)
	}
	for key, e := range b.entries {
		if e.list != b.list {
			b.setLocked(change{key: key})
		}
	}
	b.revision, b.history, b.synced = revision, history, true
	b.signal()
}

// advance merges the changes up to a revision.
func (b *cache) advance(changes []change, revision int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range changes {
		b.setLocked(c)
	}
	b.revision = max(b.revision, revision)
	b.signal()
}

func (b *cache) setLocked(c change) {
	e := b.entries[c.key]
	e.list = b.list
	e.stored, e.wanted = 0, 0
	if c.value != nil {
		e.stored = b.hash(c.value)
	}
	if c.resource != nil {
		e.wanted = e.stored
	}
	b.entries[c.key] = e
	if c.err != nil {
		b.unusable[c.key] = c.err
	} else {
		delete(b.unusable, c.key)
	}
	if e.wanted == e.delivered { // the receiver already has this value, or lack of one
		delete(b.pending, c.key)
		b.forgetLocked(c.key, e)
		return
	}
	if len(b.pending) == 0 {
		b.waiting = time.Now()
	}
	b.pending[c.key] = c.resource
}

// forgetLocked deletes an entry that is absent in the store and for the receiver.
func (b *cache) forgetLocked(key policy.Key, e entry) {
	if e.stored == 0 && e.delivered == 0 {
		delete(b.entries, key)
	}
}

// full reports whether the limit of pending changes is reached.
func (b *cache) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending) >= b.limit
}

// waitRoom blocks while the limit of pending changes is reached, until done is closed.
func (b *cache) waitRoom(done <-chan struct{}) {
	b.mu.Lock()
	full, room := len(b.pending) >= b.limit, b.room
	b.mu.Unlock()
	if full {
		select {
		case <-room:
		case <-done:
		}
	}
}

// position returns the last revision at which the state was complete, and its history.
func (b *cache) position() (revision int64, history *History) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revision, b.history
}

// size returns the number of objects in the store and of pending changes.
func (b *cache) size() (objects, pending int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.entries), len(b.pending)
}

// take returns the pending changes, sorted by key, and records them as delivered. If synced is
// true, the receiver then has the state at the revision of the history.
func (b *cache) take() (updates []policy.Update, revision int64, history *History, synced bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	updates = make([]policy.Update, 0, len(b.pending))
	for key, r := range b.pending {
		updates = append(updates, policy.Update{Key: key, Resource: r})
		e := b.entries[key]
		e.delivered = e.wanted
		b.entries[key] = e
		b.forgetLocked(key, e)
	}
	// A new map: a map does not shrink after the first load.
	b.pending = map[policy.Key]policy.Resource{}
	b.delivering, b.waiting = b.waiting, time.Time{}
	close(b.room)
	b.room = make(chan struct{})
	slices.SortFunc(updates, func(x, y policy.Update) int { return x.Key.Compare(y.Key) })
	return updates, b.revision, b.history, b.synced
}

// delivered records that the receiver has the changes of the last take.
func (b *cache) delivered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.delivering = time.Time{}
}

// behind returns the age of the oldest change that the receiver lacks; 0 if it has all.
func (b *cache) behind(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.delivering.IsZero():
		return now.Sub(b.delivering)
	case len(b.pending) > 0:
		return now.Sub(b.waiting)
	}
	return 0
}

// bad returns the objects whose value in the store cannot be used.
func (b *cache) bad() map[policy.Key]error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.unusable)
}

func (b *cache) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
