// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/wayleave/wayleave/policy"
)

var (
	errRestarted    = errors.New("etcd: the store's history is another one")
	errMissedEvents = errors.New("etcd: the watch has missed a change")
	errFull         = errors.New("etcd: the receiver is behind")
)

// feed reads the store into the cache: a list, then a watch from there, and again whatever is needed
// after something went wrong. It belongs to its own goroutine.
type feed struct {
	source *Source
	config SourceConfig
	client *Client
	cache  *cache
	lost   bool // Lost was told last, not Found
	found  bool
	read   keysRead

	// Heartbeats own these while one is on its way; there is one at a time.
	beaten    int64     // the revision that the store was at
	rechecked time.Time // when it was asked for what the watch has missed
}

func (f *feed) run(ctx context.Context) {
	retry := backOff{most: f.config.MaxBackOff}
	for listed := false; ctx.Err() == nil; {
		var err error
		if !listed {
			err = f.list(ctx)
			listed = err == nil
		} else {
			err = f.watch(ctx, &retry)
			// Of anything else a new watch from where we are will tell.
			again := errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, errRestarted) ||
				errors.Is(err, errMissedEvents)
			listed = !again && !errors.Is(err, ErrNotInitialised) && !errors.Is(err, ErrNewer)
			if !listed {
				f.source.note(func(s *SourceStats) { s.Resyncs++ })
			}
			if _, history := f.cache.position(); errors.Is(err, errRestarted) {
				history.finish()
			}
			if again {
				f.count(err)
				// where a list takes so long that the watch from there is compacted again, this
				// must not be a tight loop
				retry.wait(ctx)
				continue // the list will tell whether the store is there
			}
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errFull):
			f.cache.waitRoom(ctx.Done())
		case err != nil:
			f.tellLost(err)
			retry.wait(ctx)
		default:
			f.tellFound()
		}
	}
}

// decode makes a change of a stored value. err says why that is of no use, if that is known.
func (f *feed) decode(key policy.Key, rel string, value []byte, err error) change {
	c := change{key: key, value: value}
	if err == nil {
		var o object
		o, err = decodeObject(key, value)
		c.resource = o.resource
		if doubt := new(policy.DoubtError); errors.As(err, &doubt) {
			err = nil // in force; the receiver's Admit reports it
		}
	}
	if err != nil {
		c.err = &ValueError{Key: rel, Err: err}
		f.reject(c.err)
	}
	return c
}

func (f *feed) reject(err error) {
	f.source.note(func(s *SourceStats) { s.Rejected++ })
	f.config.Hooks.Rejected(err)
}

// count counts what went wrong.
func (f *feed) count(err error) {
	kind := failureKind(err)
	f.source.note(func(s *SourceStats) { s.Failures[kind]++ })
}

func failureKind(err error) FailureKind {
	var said rpctypes.EtcdError
	switch {
	case errors.Is(err, ErrNotInitialised):
		return FailureUninitialised
	case errors.Is(err, ErrNewer):
		return FailureNewer
	case errors.Is(err, errRestarted):
		return FailureHistory
	case errors.Is(err, errMissedEvents):
		return FailureMissed
	case errors.Is(err, rpctypes.ErrCompacted):
		return FailureCompacted
	case errors.As(err, &said) && said.Code() != codes.Unavailable && said.Code() != codes.DeadlineExceeded:
		return FailureRefused
	}
	return FailureUnreachable
}

// watch merges changes after the revision of the cache, until an error.
func (f *feed) watch(ctx context.Context, retry *backOff) error {
	etcd, err := f.client.conn(ctx)
	if err != nil {
		return err
	}
	revision, history := f.cache.position()
	// A server without a leader, cut off from the others, knows nothing new and must not be
	// listened to.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	f.source.note(func(s *SourceStats) { s.Watches++ })
	// Watch returns when the server has answered, which it may never do.
	timer := time.AfterFunc(f.client.timeout, cancel)
	events := etcd.Watch(ctx, f.client.key(partState), clientv3.WithPrefix(), clientv3.WithRev(revision+1),
		clientv3.WithCreatedNotify(), clientv3.WithProgressNotify())
	if !timer.Stop() {
		return fmt.Errorf("etcd: watch: %w", f.client.explain(errors.New("the server does not answer")))
	}
	f.beaten, f.rechecked = 0, time.Now()
	beat := time.NewTicker(f.config.Heartbeat)
	defer beat.Stop()
	var answer chan error // of the heartbeat that is on its way
	var asked keysRead    // what it compares
	answered := true      // the last heartbeat that came back, well
	ask := func() {
		if answer == nil {
			answer = make(chan error, 1)
			asked = f.read
			f.read.first = keyRead{}
			go func(answer chan<- error) { answer <- f.heartbeat(ctx, etcd, history, asked) }(answer)
		}
	}
	defer func() {
		if answer != nil {
			cancel()
			<-answer
		}
	}()
	for {
		select {
		case response, ok := <-events:
			if !ok {
				return fmt.Errorf("etcd: watch: %w", f.client.explain(errors.New("lost")))
			}
			if err := f.takeEvents(response, history); err != nil {
				return err
			}
			switch {
			case !response.Created && answered: // a server that takes a watch and ends it at once has not been found
				retry.reset()
				f.tellFound()
			case response.Header.Revision < revision: // a member that is behind the others, or another history
				ask()
			}
		case <-beat.C:
			ask()
		case <-history.done:
			return errRestarted
		case err := <-answer:
			answer, answered = nil, err == nil
			if err == nil {
				f.read.known = asked.last
			} else if asked.first.key != "" {
				f.read.first = asked.first
			}
			switch {
			case errors.Is(err, errRestarted) || errors.Is(err, errMissedEvents) || errors.Is(err, ErrNotInitialised) ||
				errors.Is(err, ErrNewer):
				return err
			case err != nil && ctx.Err() == nil:
				f.tellLost(err) // the watch may go on nonetheless, as after a role is taken away
			case err == nil:
				retry.reset()
				f.tellFound()
			}
		}
	}
}

// takeEvents takes in what a watch tells.
func (f *feed) takeEvents(response clientv3.WatchResponse, history *History) error {
	if err := response.Err(); err != nil {
		return fmt.Errorf("etcd: watch: %w", f.client.explain(err))
	}
	// The client resumes a watch by itself, at whatever server has the address by then.
	if cluster := response.Header.ClusterId; cluster != 0 && cluster != history.cluster {
		return errRestarted
	}
	if response.Created {
		return nil
	}
	f.source.note(func(s *SourceStats) { s.Events += uint64(len(response.Events)) })
	markKey := f.client.key(mark)
	if slices.ContainsFunc(response.Events, func(e *clientv3.Event) bool { return string(e.Kv.Key) == markKey }) {
		return f.takeMark(response.Events)
	}
	// While a watch catches up, its header is ahead of its events.
	upTo := response.Header.Revision
	_, waiting := f.cache.size()
	changes := make([]change, 0, len(response.Events))
	for i, event := range response.Events {
		at := event.Kv.ModRevision
		if i > 0 && at != upTo && waiting+len(changes) >= f.cache.limit { // what is left the next watch will tell again
			f.cache.advance(changes, upTo)
			return errFull
		}
		upTo = at
		f.read.note(f.cache, event.Kv, event.Type == mvccpb.DELETE)
		if c, ok := f.takeEvent(event); ok {
			changes = append(changes, c)
		}
	}
	f.cache.advance(changes, upTo)
	if f.cache.full() {
		return errFull
	}
	return nil
}

// takeEvent makes a change of an event; none where there is no telling of which object.
func (f *feed) takeEvent(event *clientv3.Event) (change, bool) {
	rel := f.client.rel(event.Kv.Key)
	key, err := parsePath(rel[len(partState):])
	switch {
	case !isObject(rel):
		return change{}, false
	case err != nil && !errors.Is(err, ErrNewer):
		f.reject(&ValueError{Key: rel, Err: err})
		return change{}, false
	case event.Type == mvccpb.DELETE:
		return change{key: key}, true
	}
	return f.decode(key, rel, event.Kv.Value, err), true
}

// takeMark says what became of the mark. Nothing of what came with it, or comes after, counts
// before the key space is said to be right, and has been listed.
func (f *feed) takeMark(events []*clientv3.Event) error {
	for _, event := range events {
		if f.client.rel(event.Kv.Key) != mark {
			continue
		}
		if event.Type == mvccpb.DELETE {
			return fmt.Errorf("etcd: watch: %w", ErrNotInitialised)
		}
		if err := checkMark(event.Kv.Value); err != nil {
			return err
		}
	}
	return errRestarted
}

// heartbeat asks the store whether it is there and of the same history, and the key space complete.
func (f *feed) heartbeat(ctx context.Context, etcd *clientv3.Client, history *History, read keysRead) error {
	revision, _ := f.cache.position()
	ctx, cancel := f.client.request(ctx)
	defer cancel()
	gets := []clientv3.Op{clientv3.OpGet(f.client.key(mark))}
	compared := slices.DeleteFunc([]keyRead{read.known, read.first}, func(k keyRead) bool { return k.key == "" })
	for _, k := range compared {
		gets = append(gets, clientv3.OpGet(k.key))
	}
	response, err := etcd.Txn(ctx).Then(gets...).Commit()
	switch {
	case err != nil:
		return fmt.Errorf("etcd: heartbeat: %w", f.client.explain(err))
	case history.contradicts(max(revision, f.beaten), response.Header):
		return errRestarted
	}
	for i, k := range compared {
		if err := f.compare(ctx, etcd, k, response.Responses[i+1].GetResponseRange().Kvs); err != nil {
			return err
		}
	}
	before := f.beaten
	f.beaten = response.Header.Revision
	if before > revision && time.Since(f.rechecked) > f.config.Recheck {
		f.rechecked = time.Now().Add(rand.N(f.config.Recheck/4 + 1)) // not all nodes at once
		if err := f.recheck(ctx, etcd, revision, before); err != nil {
			return err
		}
	}
	kvs := response.Responses[0].GetResponseRange().Kvs
	if err := f.checkMark(kvs); err != nil {
		return err
	}
	if !history.has(kvs[0]) {
		return errRestarted
	}
	return nil
}

// compare compares a key that was read with what the store has under it now. If it has changed since,
// compare asks for what it was at its revision.
func (f *feed) compare(ctx context.Context, etcd *clientv3.Client, known keyRead, now []*mvccpb.KeyValue) error {
	switch {
	case known.is(f.cache, now):
		return nil
	case len(now) > 0 && now[0].ModRevision <= known.revision:
		return errRestarted
	}
	then, err := etcd.Get(ctx, known.key, clientv3.WithRev(known.revision))
	switch {
	case errors.Is(err, rpctypes.ErrCompacted): // there is no telling any more
		return nil
	case err != nil:
		return fmt.Errorf("etcd: heartbeat: %w", f.client.explain(err))
	case !known.is(f.cache, then.Kvs):
		return errRestarted
	}
	return nil
}

// keyRead is a key that was read at a revision of a history. A restored backup that lacks this revision
// has something else there.
type keyRead struct {
	key      string
	revision int64
	hash     uint64 // of the value; 0 if the key was deleted
}

// keysRead has the keys that a heartbeat compares. The client resumes a watch by itself, so what was read
// since the last heartbeat may be of two histories: then the first is of the former.
type keysRead struct {
	known keyRead // the newest key at the last heartbeat that went well, or at the end of the list
	first keyRead // the first key that was read since
	last  keyRead // the newest key
}

// note records a key.
func (k *keysRead) note(b *cache, kv *mvccpb.KeyValue, deleted bool) {
	read := keyRead{key: string(kv.Key), revision: kv.ModRevision}
	if !deleted {
		read.hash = b.hash(kv.Value)
	}
	if k.first.key == "" {
		k.first = read
	}
	if kv.ModRevision >= k.last.revision {
		k.last = read
	}
}

// is reports whether a store that has these values under the key has it as it was read.
func (k *keyRead) is(b *cache, kvs []*mvccpb.KeyValue) bool {
	if len(kvs) == 0 {
		return k.hash == 0
	}
	return kvs[0].ModRevision == k.revision && b.hash(kvs[0].Value) == k.hash
}

// recheck asks for an object that changed after one revision and not after another, of which the
// watch should have told long ago. That costs the server a look at every object, and us next to
// nothing.
func (f *feed) recheck(ctx context.Context, etcd *clientv3.Client, after, upTo int64) error {
	missed, err := etcd.Get(ctx, f.client.key(partState), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithLimit(1), clientv3.WithMinModRev(after+1), clientv3.WithMaxModRev(upTo))
	switch {
	case err != nil:
		return fmt.Errorf("etcd: recheck: %w", f.client.explain(err))
	case len(missed.Kvs) > 0:
		return errMissedEvents
	}
	return nil
}

func (f *feed) tellLost(err error) {
	f.lost = true
	f.count(err)
	f.source.note(func(s *SourceStats) { s.Connected, s.LastError = false, err })
	f.config.Hooks.Lost(err)
}

func (f *feed) tellFound() {
	if f.found && !f.lost {
		return
	}
	f.found, f.lost = true, false
	f.source.note(func(s *SourceStats) { s.Connected, s.LastError = true, nil })
	f.config.Hooks.Found()
}

// backOff is how long to wait before the next attempt.
type backOff struct {
	most, next time.Duration
}

func (b *backOff) reset() { b.next = 0 }

// wait blocks for a random time that doubles with every call, up to a limit, or until ctx is done.
func (b *backOff) wait(ctx context.Context) {
	b.next = min(b.most, max(50*time.Millisecond, b.next*2))
	timer := time.NewTimer(b.next/2 + rand.N(b.next/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
