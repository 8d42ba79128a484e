// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"errors"
	"sync"
	"time"
)

// Stats are the counters of a Sweeper since New.
type Stats struct {
	// Sweeps is the number of complete passes over the table. Interrupted is the number of passes
	// that had to start again.
	Sweeps, Interrupted uint64
	// Judged is the number of judged flows. A flow counts once in each pass.
	Judged uint64
	// Unknown is the number of judged flows for which the Judge of the latest ruleset returned
	// Unknown.
	Unknown uint64
	// Ended is the number of ended flows. Vanished is the number of flows that had already ended.
	// Failed is the number of flows that the kernel refused to end; the next pass tries these
	// again.
	Ended, Vanished, Failed uint64
	// Pending is the number of changes for which not all flows have been judged yet.
	Pending int
}

// Progress is the result of a Step.
type Progress struct {
	// Done means that no change is pending.
	Done bool
	// Wait is the time until the next Step can do something: until Config.Delay or Config.Retry has
	// passed, or until Config.JudgeRate and EndRate allow more. It is zero if Done is set, or if
	// the next Step can continue at once.
	Wait time.Duration
}

// Sweeper ends the flows that a change of the ruleset turned from allowed to denied.
//
// Change and Stats may be called from any goroutine. Only one goroutine at a time may call Step or
// Close.
type Sweeper struct {
	cfg Config

	// Only Step and Close use the following fields.
	reader, ender *Conn
	judging       bucket
	ending        bucket
	pass          *pass
	retryAt       time.Time // earliest start of the next pass after a failure
	interrupted   int       // consecutive interrupted passes

	mu    sync.Mutex // guards the fields below
	rules rules
	stats Stats
}

// New returns a Sweeper that has nothing to do until Change is called. It opens netlink sockets,
// which Close closes.
//
// Errors: cfg is invalid, a system call fails, or ErrUnsupported.
func New(cfg Config) (*Sweeper, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return newSweeper(cfg, func() (*Conn, error) { return Dial(ConnConfig{NetNS: cfg.NetNS}) })
}

// newSweeper does what New does, with connections from dial.
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

// Close closes the sockets. The Sweeper does no further work, even if changes are pending.
//
// Errors: those of the system calls.
func (s *Sweeper) Close() error {
	var errs []error
	for _, conn := range []*Conn{s.reader, s.ender} {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	return errors.Join(errs...)
}

// Change records that one ruleset has replaced another in the kernel. The parameters are the Judge
// of the old ruleset and the Judge of the new one. The next calls of Step judge all flows, which is
// called a sweep. Step ends a flow if the old Judge returns Allowed and the new Judge returns
// Denied.
//
// Change may be called again before the sweep is done. Step then ends a flow if the latest ruleset
// denies it and at least one earlier ruleset allowed it.
func (s *Sweeper) Change(before, after Judge) {
	due := s.cfg.now().Add(max(0, s.cfg.Delay))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules.changes = append(s.rules.changes, change{before: before, due: due})
	s.rules.after = after
	s.rules.version++
}

// Stats returns the counters.
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
