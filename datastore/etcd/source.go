// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

var _ datastore.Source = (*Source)(nil)

// SourceConfig says where a Source reads, and how.
//
// It is a plain value and is not changed by the Source.
type SourceConfig struct {
	// Client to read with. Required.
	Client *Client
	// PageSize is how many objects are listed with one request at most; fewer where they are large,
	// so that a page is some 4 MiB at most, and at the beginning. Two pages are in memory at a
	// time. Default: 5000.
	PageSize int
	// MaxPending is how many objects may wait for the receiver. Beyond that the list does not go
	// on, and the watch is given up until the receiver has taken them; the server keeps what is
	// missed meanwhile. The changes of one transaction stay together, even where that goes beyond.
	// Default: 20,000.
	MaxPending int
	// MaxBackOff is the longest time between two attempts to reach the store. The first are made
	// after a twentieth of a second, then twice that and so on, each at a random moment of the last
	// half. Default: 5 s.
	MaxBackOff time.Duration
	// Heartbeat is how often the store is asked, beside the watch, whether it is still there, still
	// ours, and still of the same history. Default: 5 s.
	Heartbeat time.Duration
	// Recheck is how often the store is queried for changes that the watch should have reported but
	// did not, as happens with a proxy that has lost a watch of its own; then everything is listed
	// again. The server reads every object for it. Default: 10 min.
	Recheck time.Duration
	// Hooks are called on events. Optional.
	Hooks SourceHooks
}

// SourceHooks are optional functions that a Source calls while Run runs: Delivered from the
// goroutine that calls the receiver, the others from one other. They must not block.
type SourceHooks struct {
	// Rejected is called for a value that cannot be used, once for each version of it; for a key that
	// cannot be parsed, with every list. The error is a *ValueError.
	Rejected func(err error)
	// Lost is called with the error of every attempt to read the store that fails. The receiver keeps
	// its state.
	Lost func(err error)
	// Found is called when the store is read again after Lost, or for the first time.
	Found func()
	// Delivered is called with each revision up to which the receiver has everything, and with the
	// history that the revision belongs to: a Report needs both. Revisions of one history only
	// increase.
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
	if c.PageSize == 0 {
		c.PageSize = 5000
	}
	if c.MaxPending == 0 {
		c.MaxPending = 20_000
	}
	if c.MaxBackOff == 0 {
		c.MaxBackOff = 5 * time.Second
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 5 * time.Second
	}
	if c.Recheck == 0 {
		c.Recheck = 10 * time.Minute
	}
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
			"etcd: SourceConfig: PageSize, MaxPending, MaxBackOff, Heartbeat and Recheck must not be negative",
		))
	}
	return errors.Join(errs...)
}

// Source reads the objects of a cluster: all of them at one revision, page by page, and then each
// change. After every failure it compares the store with the state of the receiver, and sends the
// differences. An object that did not change causes no update, and none is absent in between.
//
// What waits for a slow receiver is the latest state of each object only, and bounded: see
// SourceConfig.MaxPending. Beside that a Source keeps the name of each object and a hash of its
// value.
//
// Run may run once at a time. Stats and Unusable are safe for concurrent use.
type Source struct {
	config SourceConfig

	mu      sync.Mutex
	running bool
	stats   SourceStats
	cache   *cache
}

// SourceStats is what a Source has done and is doing. It is a plain copy; changing it has no
// effect.
type SourceStats struct {
	// Connected says that the store answered when it was last asked, and could be read.
	Connected bool
	// LastError is why not; nil where it did.
	LastError error
	// InSync is set if the receiver was notified that its state is complete.
	InSync bool
	// Read is the revision up to which the store has been read, Delivered that up to which the
	// receiver has everything; 0 before it is so for the first time.
	Read, Delivered Revision
	// Behind is for how long the receiver has had something waiting for it; 0 where nothing does.
	Behind time.Duration
	// Objects is how many objects the store has as far as it was read, and Pending how many of them
	// wait for the receiver.
	Objects, Pending int
	// Lists counts how often everything was read, Watches how often a watch was begun, and Events
	// the changes that watches reported.
	Lists, Watches, Events uint64
	// Resyncs counts how often a watch could not go on from where it was, so that everything was to
	// be read anew and compared.
	Resyncs uint64
	// Connections counts those that were made to servers, by all who use the Client; 0 where
	// Config.Etcd is set.
	Connections uint64
	// Rejected counts the values that could not be used.
	Rejected uint64
	// Failures counts what went wrong, by kind; all kinds are there.
	Failures map[FailureKind]uint64
	// Updates is how many updates the receiver was given.
	Updates uint64
}

// FailureKind is a kind of what goes wrong between a Source and the store.
type FailureKind string

// The kinds.
const (
	// FailureUnreachable: no server answers, or none that can.
	FailureUnreachable FailureKind = "unreachable"
	// FailureRefused: the user is refused, or what he asks for.
	FailureRefused FailureKind = "refused"
	// FailureCompacted: the revision to go on from is gone.
	FailureCompacted FailureKind = "compacted"
	// FailureHistory: the store has another history, as after a backup was restored, or was
	// initialised anew.
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

// NewSource returns a source. It does not speak to the store before Run. It fails if the
// configuration is invalid.
func NewSource(cfg SourceConfig) (*Source, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Source{config: cfg}, nil
}

// Stats returns what the source has done so far. The counters start again with each Run.
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

// Unusable returns the objects that the store has and that are absent for the receiver, as their
// values cannot be used, each with a *ValueError. It returns none while Run does not run.
func (s *Source) Unusable() map[policy.Key]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache == nil {
		return nil
	}
	return s.cache.bad()
}

// Run sends the receiver the content of the store and then its changes, see datastore.Source. A
// failure of the store does not end it: Run reports it to the hook Lost, and tries again.
// It returns the error of ctx or of the receiver, or ErrRunning.
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

// deliver tells the receiver what waits, as long as it takes it.
func (s *Source) deliver(ctx context.Context, b *cache, r datastore.Receiver) error {
	inSync, told, toldOf := false, int64(0), (*History)(nil)
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
		s.note(func(stats *SourceStats) {
			stats.Updates += uint64(len(updates))
			stats.InSync, stats.Delivered = inSync, Revision(revision)
		})
		if inSync && (revision != told || history != toldOf) {
			told, toldOf = revision, history
			s.config.Hooks.Delivered(Revision(told), history)
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

func (s *Source) note(f func(*SourceStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}
