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
	errRestarted    = errors.New("etcd: the store was replaced or restored")
	errMissedEvents = errors.New("etcd: the watch has missed a change")
	errFull         = errors.New("etcd: the receiver is too slow")
)

// feed reads the store into the cache: first a list, then a watch from the revision of the list.
// After a failure it continues the watch or lists again. It belongs to one goroutine.
type feed struct {
	source *Source
	config SourceConfig
	client *Client
	cache  *cache
	lost   bool // Lost was called after the last Found
	found  bool
	read   keysRead

	// A heartbeat in progress uses these. There is at most one.
	heartbeatRevision int64     // the store's revision at the last heartbeat
	rechecked         time.Time // time of the last query for missed changes
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
			// After any other error, a new watch continues from the present revision.
			again := errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, errRestarted) ||
				errors.Is(err, errMissedEvents)
			listed = !again && !errors.Is(err, ErrNotInitialised) && !errors.Is(err, ErrNewer)
			if !listed {
				f.source.updateStats(func(s *SourceStats) { s.Resyncs++ })
			}
			if _, history := f.cache.position(); errors.Is(err, errRestarted) {
				history.finish()
			}
			if again {
				f.count(err)
				// If each list takes so long that its revision is compacted meanwhile, do not loop
				// without a pause.
				retry.wait(ctx)
				continue // list calls Found or Lost
			}
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errFull):
			f.cache.waitRoom(ctx.Done())
		case err != nil:
			f.reportLost(err)
			retry.wait(ctx)
		default:
			f.reportFound()
		}
	}
}

// decode returns the change for a stored value. err is set if the value is already known to be
// unusable.
func (f *feed) decode(key policy.Key, rel string, value []byte, err error) change {
	c := change{key: key, value: value}
	if err == nil {
		var o object
		o, err = decodeObject(key, value)
		c.resource = o.resource
		if doubt := new(policy.DoubtError); errors.As(err, &doubt) {
			err = nil // the policy is enforced; the receiver's Admit reports the error
		}
	}
	if err != nil {
		c.err = &ValueError{Key: rel, Err: err}
		f.reject(c.err)
	}
	return c
}

func (f *feed) reject(err error) {
	f.source.updateStats(func(s *SourceStats) { s.Rejected++ })
	f.config.Hooks.Rejected(err)
}

// count counts a failure.
func (f *feed) count(err error) {
	kind := failureKind(err)
	f.source.updateStats(func(s *SourceStats) { s.Failures[kind]++ })
}

func failureKind(err error) FailureKind {
	var etcdErr rpctypes.EtcdError
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
	case errors.As(err, &etcdErr) && etcdErr.Code() != codes.Unavailable && etcdErr.Code() != codes.DeadlineExceeded:
		return FailureRefused
	}
	return FailureUnreachable
}

// watch merges the changes after the revision of the cache, until an error occurs.
func (f *feed) watch(ctx context.Context, retry *backOff) error {
	etcd, err := f.client.conn(ctx)
	if err != nil {
		return err
	}
	revision, history := f.cache.position()
	// A server that is cut off from the others has no leader, and receives no changes. It must end
	// the watch.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	f.source.updateStats(func(s *SourceStats) { s.Watches++ })
	// Watch returns when the server has healthy, so it needs a timeout.
	timer := time.AfterFunc(f.client.timeout, cancel)
	events := etcd.Watch(ctx, f.client.key(partState), clientv3.WithPrefix(), clientv3.WithRev(revision+1),
		clientv3.WithCreatedNotify(), clientv3.WithProgressNotify())
	if !timer.Stop() {
		return fmt.Errorf("etcd: watch: %w", f.client.explain(errors.New("the server does not answer")))
	}
	f.heartbeatRevision, f.rechecked = 0, time.Now()
	beat := time.NewTicker(f.config.Heartbeat)
	defer beat.Stop()
	var result chan error // of the heartbeat in progress
	var reading keysRead  // the keys that it compares
	healthy := true       // the last heartbeat succeeded
	sendHeartbeat := func() {
		if result == nil {
			result = make(chan error, 1)
			reading = f.read
			f.read.first = keyRead{}
			go func(result chan<- error) { result <- f.heartbeat(ctx, etcd, history, reading) }(result)
		}
	}
	defer func() {
		if result != nil {
			cancel()
			<-result
		}
	}()
	for {
		select {
		case response, ok := <-events:
			if !ok {
				return fmt.Errorf("etcd: watch: %w", f.client.explain(errors.New("lost")))
			}
			if err := f.processEvents(response, history); err != nil {
				return err
			}
			switch {
			case !response.Created && healthy: // after Created, a server may still end the watch at once
				retry.reset()
				f.reportFound()
			case response.Header.Revision < revision: // a member that is behind the others, or another history
				sendHeartbeat()
			}
		case <-beat.C:
			sendHeartbeat()
		case <-history.done:
			return errRestarted
		case err := <-result:
			result, healthy = nil, err == nil
			if err == nil {
				f.read.known = reading.last
			} else if reading.first.key != "" {
				f.read.first = reading.first
			}
			switch {
			case errors.Is(err, errRestarted) || errors.Is(err, errMissedEvents) || errors.Is(err, ErrNotInitialised) ||
				errors.Is(err, ErrNewer):
				return err
			case err != nil && ctx.Err() == nil:
				f.reportLost(err) // the watch may continue, for example after the user lost a role
			case err == nil:
				retry.reset()
				f.reportFound()
			}
		}
	}
}

// processEvents merges the events of one response of a watch.
func (f *feed) processEvents(response clientv3.WatchResponse, history *History) error {
	if err := response.Err(); err != nil {
		return fmt.Errorf("etcd: watch: %w", f.client.explain(err))
	}
	// The client resumes a watch by itself, possibly at another server that now has the address.
	if cluster := response.Header.ClusterId; cluster != 0 && cluster != history.cluster {
		return errRestarted
	}
	if response.Created {
		return nil
	}
	f.source.updateStats(func(s *SourceStats) { s.Events += uint64(len(response.Events)) })
	markKey := f.client.key(mark)
	if slices.ContainsFunc(response.Events, func(e *clientv3.Event) bool { return string(e.Kv.Key) == markKey }) {
		return f.processMark(response.Events)
	}
	// While a watch catches up, the revision in its header is later than its events.
	upTo := response.Header.Revision
	_, waiting := f.cache.size()
	changes := make([]change, 0, len(response.Events))
	for i, event := range response.Events {
		at := event.Kv.ModRevision
		if i > 0 && at != upTo && waiting+len(changes) >= f.cache.limit { // the next watch sends the others again
			f.cache.advance(changes, upTo)
			return errFull
		}
		upTo = at
		f.read.record(f.cache, event.Kv, event.Type == mvccpb.DELETE)
		if c, ok := f.changeOf(event); ok {
			changes = append(changes, c)
		}
	}
	f.cache.advance(changes, upTo)
	if f.cache.full() {
		return errFull
	}
	return nil
}

// changeOf returns the change of an event; none if the key is not that of an object.
func (f *feed) changeOf(event *clientv3.Event) (change, bool) {
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

// processMark processes a change of the mark. The other events of its response are ignored, because
// everything is listed after any change of the mark.
func (f *feed) processMark(events []*clientv3.Event) error {
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

// heartbeat checks that the store answers, that it has the same history, and that it has the mark.
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
	case history.contradicts(max(revision, f.heartbeatRevision), response.Header):
		return errRestarted
	}
	for i, k := range compared {
		if err := f.compare(ctx, etcd, k, response.Responses[i+1].GetResponseRange().Kvs); err != nil {
			return err
		}
	}
	before := f.heartbeatRevision
	f.heartbeatRevision = response.Header.Revision
	if before > revision && time.Since(f.rechecked) > f.config.Recheck {
		f.rechecked = time.Now().Add(rand.N(f.config.Recheck/4 + 1)) // spreads the queries of many nodes
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

// compare compares a key that was read with the store's present value. If that is newer, it reads
// the value at the earlier revision.
func (f *feed) compare(ctx context.Context, etcd *clientv3.Client, known keyRead, now []*mvccpb.KeyValue) error {
	switch {
	case known.is(f.cache, now):
		return nil
	case len(now) > 0 && now[0].ModRevision <= known.revision:
		return errRestarted
	}
	then, err := etcd.Get(ctx, known.key, clientv3.WithRev(known.revision))
	switch {
	case errors.Is(err, rpctypes.ErrCompacted): // the value at that revision is not available
		return nil
	case err != nil:
		return fmt.Errorf("etcd: heartbeat: %w", f.client.explain(err))
	case !known.is(f.cache, then.Kvs):
		return errRestarted
	}
	return nil
}

// keyRead is a key as it was read at a revision. If a restored backup lacks this revision, it has
// another value there.
type keyRead struct {
	key      string
	revision int64
	hash     uint64 // of the value; 0 if the key was deleted
}

// keysRead has the keys that a heartbeat compares. The client resumes a watch by itself, so the
// keys that were read since the last heartbeat may be from two histories. In that case, the first
// of them is from the earlier history.
type keysRead struct {
	known keyRead // the newest key at the last successful heartbeat, or at the end of the list
	first keyRead // the first key that was read since then
	last  keyRead // the newest key
}

// record records a key.
func (k *keysRead) record(b *cache, kv *mvccpb.KeyValue, deleted bool) {
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

// is reports whether the store's values of a key are equal to the key that was read.
func (k *keyRead) is(b *cache, kvs []*mvccpb.KeyValue) bool {
	if len(kvs) == 0 {
		return k.hash == 0
	}
	return kvs[0].ModRevision == k.revision && b.hash(kvs[0].Value) == k.hash
}

// recheck queries for an object that changed in a range of revisions. The watch should have
// reported it long ago. The server reads every object for this query, but returns at most one.
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

func (f *feed) reportLost(err error) {
	f.lost = true
	f.count(err)
	f.source.updateStats(func(s *SourceStats) { s.Connected, s.LastError = false, err })
	f.config.Hooks.Lost(err)
}

func (f *feed) reportFound() {
	if f.found && !f.lost {
		return
	}
	f.found, f.lost = true, false
	f.source.updateStats(func(s *SourceStats) { s.Connected, s.LastError = true, nil })
	f.config.Hooks.Found()
}

// backOff computes the pauses between attempts.
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
