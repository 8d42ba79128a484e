// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

var _ datastore.Source = (*Source)(nil)

// SourceConfig configures a Source. The Source does not change it.
type SourceConfig struct {
	// Client that reads the store. Required.
	Client *Client
	// PageSize is the maximum number of objects in a page of a list. The first page is smaller, and
	// so are pages of large objects: a page has about 4 MiB at most. Two pages are in memory at a
	// time. Default: 5000.
	PageSize int
	// MaxPending is the number of pending objects at which the Source stops reading. An object is
	// pending while the receiver lacks its latest value. The Source pauses a list, or ends its
	// watch, and continues once the receiver has the pending objects. The server keeps the changes
	// meanwhile. The changes of one transaction stay together, even above the limit. Default:
	// 20,000.
	MaxPending int
	// MaxBackOff is the maximum pause between two attempts after a failure. The pause begins at 50
	// ms and doubles with each failure. Up to half of it is removed at random. Default: 5 s.
	MaxBackOff time.Duration
	// Heartbeat is the interval at which the Source checks the store, in addition to its watch. It
	// checks that the store answers, and that the mark (the key that Store.Init creates) and the
	// History have not changed. Default: 5 s.
	Heartbeat time.Duration
	// Recheck is the minimum interval at which the Source queries the store for changes that the
	// watch did not report. If it finds one, it lists everything again. For each query, the server
	// reads every object. A watch may miss changes if a proxy between Source and server loses its
	// own watch. Default: 10 min.
	Recheck time.Duration
	// Hooks are called on events. Optional.
	Hooks SourceHooks
}

// SourceHooks are optional functions that a Source calls during Run. The Source calls Delivered
// from the goroutine that calls the receiver, and all other hooks from a second goroutine. No hook
// may block.
type SourceHooks struct {
	// Rejected is called for a value that cannot be used, once for each version of the value. If
	// the key cannot be parsed, Rejected is called for each change of the key, and again each time
	// the Source lists the store. The error is a *ValueError.
	Rejected func(err error)
	// Lost is called with the error of each failed attempt to read the store. Such a failure
	// removes no objects from the datastore.Receiver.
	Lost func(err error)
	// Found is called when the store can be read for the first time, and again after Lost.
	Found func()
	// Delivered is called when the receiver has all changes up to a revision. The arguments are
	// this revision and the History to which the revision belongs. A Report needs both. Revisions
	// of one History only increase.
	Delivered func(revision Revision, history *History)
}

func (h SourceHooks) withDefaults() SourceHooks {
	if h.Rejected == nil {
		h.Rejected = func(error) {}
	}
	if h.Lost == nil {
		h.Lost = func(error) {}
	}
	if h.Found == nil {
		h.Found = func() {}
	}
	if h.Delivered == nil {
		h.Delivered = func(Revision, *History) {}
	}
	return h
}

func (c SourceConfig) withDefaults() SourceConfig {
	c.PageSize = cmp.Or(c.PageSize, 5000)
	c.MaxPending = cmp.Or(c.MaxPending, 20_000)
	c.MaxBackOff = cmp.Or(c.MaxBackOff, 5*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, 5*time.Second)
	c.Recheck = cmp.Or(c.Recheck, 10*time.Minute)
	c.Hooks = c.Hooks.withDefaults()
	return c
}

func (c SourceConfig) validate() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("etcd: SourceConfig.Client: required"))
	}
	if c.PageSize < 0 || c.MaxPending < 0 || c.MaxBackOff < 0 || c.Heartbeat < 0 || c.Recheck < 0 {
		errs = append(errs, errors.New(
			"etcd: SourceConfig.PageSize, MaxPending, MaxBackOff, Heartbeat and Recheck: must not be negative",
		))
	}
	return errors.Join(errs...)
}

// Source reads the objects of a cluster: first all of them at one revision, in pages, and then each
// change. After a failure, it sends only the differences between the store and the state of the
// receiver.
//
// If the receiver is slow, the Source keeps the latest value of each object that the receiver has
// not got yet. At SourceConfig.MaxPending such objects, it stops reading until the receiver has got
// them. In addition, a Source keeps the name of each object of the store, and hashes of its value.
//
// Only one call of Run may be active at a time. Stats and Unusable are safe for concurrent use.
type Source struct {
	config SourceConfig

	mu      sync.Mutex
	running bool
	stats   SourceStats
	cache   *cache
}

// SourceStats are the counters and the present state of a Source.
type SourceStats struct {
	// Connected means that the last request to the store succeeded.
	Connected bool
	// LastError is the error of the last request; nil if it succeeded.
	LastError error
	// InSync means that InSync of the receiver was called.
	InSync bool
	// Read is the revision up to which the store has been read. Delivered is the revision up to
	// which the receiver has all changes. They are 0 before the first list.
	Read, Delivered Revision
	// Behind is the age of the oldest change that the receiver lacks; 0 if it has all.
	Behind time.Duration
	// Objects is the number of objects that the Source has read. Until the first list is complete,
	// the store may have more. Pending is the number of objects whose latest state the receiver
	// lacks.
	Objects, Pending int
	// Lists counts the reads of the whole store that were begun. The field Watches counts the
	// watches that were begun, and Events counts the changes that these watches reported.
	Lists, Watches, Events uint64
	// Resyncs counts the watches that could not be continued, so that everything was listed again.
	Resyncs uint64
	// Connections counts the connections to servers by all users of the Client; 0 if Config.Etcd is
	// set.
	Connections uint64
	// Rejected counts the values that could not be used.
	Rejected uint64
	// Failures counts failures by kind. It has all kinds.
	Failures map[FailureKind]uint64
	// Updates counts the updates that were sent to the receiver.
	Updates uint64
}

// FailureKind is a kind of failure between a Source and the store.
type FailureKind string

// The kinds of failures.
const (
	// FailureUnreachable: no server answers, or no server that answers can serve the request.
	FailureUnreachable FailureKind = "unreachable"
	// FailureRefused: the server refuses the user or the request.
	FailureRefused FailureKind = "refused"
	// FailureCompacted: the revision from which to continue has been compacted.
	FailureCompacted FailureKind = "compacted"
	// FailureHistory: the store no longer has the data that the Source has read (see History). For
	// example, a backup was restored, or the store was initialised again.
	FailureHistory FailureKind = "history"
	// FailureMissed: the watch missed a change.
	FailureMissed FailureKind = "missed"
	// FailureUninitialised: the mark is missing.
	FailureUninitialised FailureKind = "uninitialised"
	// FailureNewer: the layout is of a newer version.
	FailureNewer FailureKind = "newer"
)

// FailureKinds returns all kinds.
func FailureKinds() []FailureKind {
	return []FailureKind{
		FailureUnreachable, FailureRefused, FailureCompacted, FailureHistory, FailureMissed, FailureUninitialised,
		FailureNewer,
	}
}

// NewSource returns a Source. It sends no request before Run. Errors: an invalid configuration.
func NewSource(cfg SourceConfig) (*Source, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Source{config: cfg}, nil
}

// Stats returns the statistics. Counters start at 0 with each Run.
func (s *Source) Stats() SourceStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Failures = map[FailureKind]uint64{}
	for _, kind := range FailureKinds() {
		stats.Failures[kind] = s.stats.Failures[kind]
	}
	stats.Connections = s.config.Client.dialErrors.connections()
	if s.cache != nil {
		stats.Objects, stats.Pending = s.cache.size()
		read, _ := s.cache.position()
		stats.Read, stats.Behind = Revision(read), s.cache.behind(time.Now())
	}
	return stats
}

// Unusable returns the objects that the receiver does not get because their values cannot be used,
// each with a *ValueError. It returns none while Run does not run.
func (s *Source) Unusable() map[policy.Key]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache == nil {
		return nil
	}
	return s.cache.bad()
}

// Run implements datastore.Source: it sends the content of the store to the receiver, and then each
// change of the store. If the store fails, Run calls the hook Lost and retries. It returns the
// error of ctx or of the receiver. A second call during the first returns ErrRunning.
func (s *Source) Run(ctx context.Context, r datastore.Receiver) error {
	b := newCache(s.config.MaxPending)
	if err := s.start(b); err != nil {
		return err
	}
	defer s.stop()
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{source: s, config: s.config, client: s.config.Client, cache: b}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		f.run(ctx)
	}()
	defer func() {
		cancel()
		<-fed
	}()
	return s.deliver(ctx, b, r)
}

// deliver sends pending changes to the receiver until one of them ends.
func (s *Source) deliver(ctx context.Context, b *cache, r datastore.Receiver) error {
	inSync, reported, reportedOf := false, int64(0), (*History)(nil)
	for {
		select {
		case <-ctx.Done():
		case <-b.wake:
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		updates, revision, history, synced := b.take()
		if len(updates) > 0 {
			if err := r.Update(ctx, updates); err != nil {
				return err
			}
		}
		b.delivered()
		if synced && !inSync {
			if err := r.InSync(ctx); err != nil {
				return err
			}
			inSync = true
		}
		s.updateStats(func(stats *SourceStats) {
			stats.Updates += uint64(len(updates))
			stats.InSync, stats.Delivered = inSync, Revision(revision)
		})
		if inSync && (revision != reported || history != reportedOf) {
			reported, reportedOf = revision, history
			s.config.Hooks.Delivered(Revision(reported), history)
		}
	}
}

func (s *Source) start(b *cache) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return fmt.Errorf("%w: Source", ErrRunning)
	}
	s.running, s.stats, s.cache = true, SourceStats{Failures: map[FailureKind]uint64{}}, b
	return nil
}

func (s *Source) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.stats.Connected, s.cache = false, false, nil
}

func (s *Source) updateStats(f func(*SourceStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}
