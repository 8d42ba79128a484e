// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wayleave/wayleave/internal/netlink"
)

// pass is one walk of the table.
type pass struct {
	covered int    // number of changes that are done when it ends
	queue   []Flow // to end
	// announced is the number of flows at the head of queue that BeforeEnd has received. announcedAt
	// is the time of its last call; before any, the start of the pass.
	announced   int
	announcedAt time.Time
	version     uint64 // of the rules by which the queue was judged
	failed      []error
	ended       int
	// walked is set if no flows are left to judge, lost if some may have been missed.
	walked, lost bool
}

// Step judges flows until it has judged the budget, give or take the hundred or so of one system
// call, or until the rates allow no more. It also returns after each call of BeforeEnd, so that the
// caller can report a change before the flows end. The next call continues the walk of the table.
//
// Errors: the context's; those of the system calls, ErrInterrupted, and, at the end of a pass, the
// errors of BeforeEnd and each *EndError, joined. Progress is then zero; the next call returns Wait.
// After any error but the context's, the changes are still pending, and the next pass begins after
// Config.Retry.
func (s *Sweeper) Step(ctx context.Context, budget int) (Progress, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Progress{}, err
		}
		now, r := s.cfg.now(), s.current()
		if len(r.changes) == 0 {
			s.cfg.Logger.Debug("no sweep is pending")
			return Progress{Done: true}, nil
		}
		if s.pass == nil {
			if wait := max(r.changes[0].due.Sub(now), s.resting.Sub(now)); wait > 0 {
				return Progress{Wait: wait}, nil
			}
			if err := s.begin(r, now); err != nil {
				return Progress{}, s.rest(now, err)
			}
		}
		s.pass.judgeAgain(r)
		if s.endsNow(now) {
			if s.ending.fill(now) > 0 && s.announce(now) {
				return Progress{}, nil // the caller may have a change that came meanwhile
			}
			wait, err := s.flush(now)
			if err != nil {
				return Progress{}, s.rest(now, err)
			}
			if wait > 0 {
				return Progress{Wait: wait}, nil
			}
		}
		switch {
		case s.pass.walked:
			if err := s.finish(); err != nil {
				return Progress{}, s.rest(now, err)
			}
			continue
		case s.judging.fill(now) == 0:
			return Progress{Wait: s.judging.wait()}, nil
		case budget <= 0:
			return Progress{}, nil
		}
		judged, err := s.advance(r)
		if err != nil {
			return Progress{}, s.rest(now, err)
		}
		budget -= judged
	}
}

// begin starts a pass for the changes that are due.
func (s *Sweeper) begin(r rules, now time.Time) error {
	if err := s.reader.begin(dumpOf(familyAny)); err != nil {
		return err
	}
	covered := slices.IndexFunc(r.changes, func(c change) bool { return c.due.After(now) })
	if covered < 0 {
		covered = len(r.changes)
	}
	s.pass = &pass{covered: covered, announcedAt: now}
	return nil
}

// rest abandons the pass after a failure, and delays the next one by Config.Retry.
func (s *Sweeper) rest(now time.Time, err error) error {
	s.pass, s.resting = nil, now.Add(s.cfg.Retry)
	return err
}

// finish ends the pass. Its changes are done, unless flows were lost or could not be ended.
func (s *Sweeper) finish() error {
	p := s.pass
	s.pass = nil
	if p.ended > 0 {
		s.cfg.Logger.Info("ended stale flows", "flows", p.ended)
	}
	if p.lost {
		s.count(func(st *Stats) { st.Interrupted++ })
		if s.interrupted++; s.interrupted == dumpAttempts {
			s.interrupted = 0
			return ErrInterrupted
		}
		return nil
	}
	s.interrupted = 0
	s.mu.Lock()
	s.stats.Sweeps++
	if len(p.failed) == 0 {
		s.rules.changes = slices.Clone(s.rules.changes[p.covered:]) // frees the rulesets
		if len(s.rules.changes) == 0 {
			s.rules.after = nil
		}
	}
	s.mu.Unlock()
	return errors.Join(p.failed...)
}

// advance judges the next part of the table, and returns the number of its flows.
func (s *Sweeper) advance(r rules) (int, error) {
	flows, done, err := s.reader.next()
	lost := netlink.Lost(err)
	if err != nil && !lost {
		return 0, err
	}
	unknown := uint64(0)
	for i := range flows {
		verdict, stale := r.judge(&flows[i])
		if verdict == Unknown {
			unknown++
		}
		if stale {
			s.pass.queue = append(s.pass.queue, flows[i])
		}
	}
	s.pass.version, s.pass.walked, s.pass.lost = r.version, done || lost, lost
	s.judging.take(len(flows))
	s.count(func(st *Stats) {
		st.Judged += uint64(len(flows))
		st.Unknown += unknown
	})
	return len(flows), nil
}

// judgeAgain removes the queued flows that a change allows. Each change needs it before more flows are judged.
func (p *pass) judgeAgain(r rules) {
	if p.version == r.version {
		return
	}
	kept, announced := p.queue[:0], 0
	for i := range p.queue {
		if _, stale := r.judge(&p.queue[i]); !stale {
			continue
		}
		if i < p.announced {
			announced++
		}
		kept = append(kept, p.queue[i])
	}
	clear(p.queue[len(kept):])
	p.queue, p.announced, p.version = kept, announced, r.version
}

// flush ends queued flows as far as the rate allows, and returns the wait until it allows more.
func (s *Sweeper) flush(now time.Time) (wait time.Duration, err error) {
	p := s.pass
	if len(p.queue) == 0 {
		return 0, nil
	}
	if n := min(s.ending.fill(now), p.announced); n > 0 {
		if err := s.end(p.queue[:n]); err != nil {
			return 0, err
		}
		p.queue = slices.Delete(p.queue, 0, n)
		p.announced -= n
	}
	if len(p.queue) > 0 {
		return s.ending.wait(), nil
	}
	return 0, nil
}

// endsNow reports whether to end queued flows before judging more. With BeforeEnd, it collects up to
// maxQueue flows or one second of them: each call may cost a transaction.
func (s *Sweeper) endsNow(now time.Time) bool {
	p := s.pass
	return s.cfg.BeforeEnd == nil || p.walked || p.announced > 0 || len(p.queue) >= maxQueue ||
		now.Sub(p.announcedAt) >= announceInterval
}

// announce passes the queue to BeforeEnd, unless its first flow was passed before. It reports whether it did.
func (s *Sweeper) announce(now time.Time) bool {
	p := s.pass
	if p.announced > 0 || len(p.queue) == 0 {
		return false
	}
	p.announced, p.announcedAt = len(p.queue), now
	if s.cfg.BeforeEnd == nil {
		return false
	}
	if err := s.cfg.BeforeEnd(p.queue); err != nil {
		p.failed = append(p.failed, fmt.Errorf("conntrack: before the end of flows: %w", err))
	}
	return true
}

// end ends flows of the queue, and records those that the kernel refuses to end.
func (s *Sweeper) end(flows []Flow) error {
	if s.cfg.Hooks.Ending != nil {
		for i := range flows {
			s.cfg.Hooks.Ending(&flows[i])
		}
	}
	ended, refused, err := s.ender.end(flows)
	s.ending.take(len(flows))
	s.pass.ended += ended
	if err != nil {
		s.count(func(st *Stats) { st.Ended += uint64(ended) })
		return fmt.Errorf("conntrack: end flows: %w", errors.Join(append(refused, err)...))
	}
	s.pass.failed = append(s.pass.failed, refused...)
	s.count(func(st *Stats) {
		st.Ended += uint64(ended)
		st.Failed += uint64(len(refused))
		st.Vanished += uint64(len(flows) - ended - len(refused))
	})
	return nil
}
