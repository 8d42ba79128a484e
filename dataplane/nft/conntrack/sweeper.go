// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"errors"
	"sync"
	"time"
)

// Stats count what a Sweeper has done since New.
type Stats struct {
	// Sweeps are passes over the whole table, Interrupted those that had to begin again.
	Sweeps, Interrupted uint64
	// Judged flows, once for every pass.
	Judged uint64
	// Unknown are those of the judged of which the ruleset after the change could not tell.
	Unknown uint64
	// Ended flows whose verdict flipped. Vanished are those that were gone before they could be ended, and
	// Failed those that the kernel refused to end, which are tried again.
	Ended, Vanished, Failed uint64
	// Pending is the number of changes whose sweep is not done.
	Pending int
}

// Progress is how things stand after a Step.
type Progress struct {
	// Done means that nothing is left to do.
	Done bool
	// Wait is how long it takes until the next Step can do anything: the rest of the delay, or until
	// the rates allow more. Zero if Done, or if the next Step can go on at once.
	Wait time.Duration
}

// Sweeper ends the flows that a change of the ruleset turned from allowed to denied.
//
// Change and Stats may be called from any goroutine at any time; of Step and Close one at a time.
type Sweeper struct {
	cfg Config

	// What follows is for Step alone.
	reader, ender *Conn
	judging       bucket
	ending        bucket
	pass          *pass
	resting       time.Time // until when, after a failure
	interrupted   int       // passes in a row

	mu    sync.Mutex // guards what follows
	rules rules
	stats Stats
}

// New returns a Sweeper with nothing to do. It opens netlink sockets, which Close closes.
//
// Errors: a config that is not valid, those of the system calls, and ErrUnsupported.
func New(cfg Config) (*Sweeper, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return newSweeper(cfg, func() (*Conn, error) { return Dial(ConnConfig{NetNS: cfg.NetNS}) })
}

// newSweeper makes one whose connections come from dial.
func newSweeper(cfg Config, dial func() (*Conn, error)) (*Sweeper, error) {
	now := cfg.now()
	s := &Sweeper{
		cfg:     cfg,
		judging: newBucket(cfg.JudgeRate, now), ending: newBucket(cfg.EndRate, now),
	}
	for _, conn := range []**Conn{&s.reader, &s.ender} {
		var err error
		if *conn, err = dial(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close closes the sockets. Flows whose sweep is not done go on. Errors: those of the system calls.
func (s *Sweeper) Close() error {
	var errs []error
	for _, conn := range []*Conn{s.reader, s.ender} {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	return errors.Join(errs...)
}

// Change says that one ruleset took the place of another, in the kernel, before the call. A flow is ended if before
// says Allowed and after says Denied. While its sweep is not done, further changes may come: then a flow is ended
// if the latest ruleset denies it and any of those before it allowed it, as it may have begun under each of them. It
// does no work itself.
func (s *Sweeper) Change(before, after Judge) {
	due := s.cfg.now().Add(max(0, s.cfg.Delay))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules.changes = append(s.rules.changes, change{before: before, due: due})
	s.rules.after = after
	s.rules.version++
}

// Stats returns the counts.
func (s *Sweeper) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Pending = len(s.rules.changes)
	return st
}

func (s *Sweeper) count(add func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.stats)
}

func (s *Sweeper) current() rules {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rules
}
