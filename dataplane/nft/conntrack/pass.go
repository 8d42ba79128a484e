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

// pass is one walk of the connection tracking table. A sweep is the work for one or more changes. A
// sweep takes several passes if the first one fails.
type pass struct {
	covered int    // number of changes whose sweep this pass completes
	queue   []Flow // flows to end
	// announced is the number of flows at the beginning of queue that BeforeEnd has received.
	// announcedAt is the time of the last call of BeforeEnd. Before the first call, it is the start
	// of the pass.
	announced   int
	announcedAt time.Time
	version     uint64 // the value of rules.version when the queue was judged
	failed      []error
	ended       int
	// walked is set at the end of the table. lost is set if flows may have been missed.
	walked, lost bool
}

// Step judges flows, and ends those that a change turned from allowed to denied. One walk of the
// connection tracking table, called a pass, judges all flows. Each call of Step continues the pass,
// and returns in these cases:
//
//   - It has judged budget flows, or up to about 100 more.
//   - Config.JudgeRate or Config.EndRate allows no more flows at the moment.
//   - It has given flows to Config.BeforeEnd. The next call of Step ends these flows.
//   - No change is pending, or Config.Delay has not passed yet.
//
// Errors: the error of the context or of a system call, or ErrInterrupted. At the end of a pass,
// Step may also return a join of errors. The join has the errors of BeforeEnd, and an *EndError for
// each flow that the kernel refused to end. With an error, the Progress is zero. After an error of
// the context, the next call continues the pass. After any other error, a new pass begins once
// Config.Retry has passed.
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
			if wait := max(r.changes[0].due.Sub(now), s.retryAt.Sub(now)); wait > 0 {
				return Progress{Wait: wait}, nil
			}
			if err := s.begin(r, now); err != nil {
				return Progress{}, s.abandon(now, err)
			}
		}
		s.pass.judgeAgain(r)
		if s.endsNow(now) {
			if s.ending.fill(now) > 0 && s.announce(now) {
				return Progress{}, nil // so that the caller can report a new change
			}
			wait, err := s.flush(now)
			if err != nil {
				return Progress{}, s.abandon(now, err)
			}
			if wait > 0 {
				return Progress{Wait: wait}, nil
			}
		}
		switch {
		case s.pass.walked:
			if err := s.finish(); err != nil {
				return Progress{}, s.abandon(now, err)
			}
			continue
		case s.judging.fill(now) == 0:
			return Progress{Wait: s.judging.wait()}, nil
		case budget <= 0:
			return Progress{}, nil
		}
		judged, err := s.judgeNext(r)
		if err != nil {
			return Progress{}, s.abandon(now, err)
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

// abandon ends the pass after a failure. The next pass begins after Config.Retry.
func (s *Sweeper) abandon(now time.Time, err error) error {
	s.pass, s.retryAt = nil, now.Add(s.cfg.Retry)
	return err
}

// finish ends the pass. The changes of the pass are done, unless flows were lost or could not be
// ended.
func (s *Sweeper) finish() error {
	p := s.pass
	s.pass = nil
	if p.ended > 0 {
		s.cfg.Logger.Info("ended denied connections", "connections", p.ended)
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
		s.rules.changes = slices.Clone(s.rules.changes[p.covered:]) // a copy, so that the old rulesets are freed
		if len(s.rules.changes) == 0 {
			s.rules.after = nil
		}
	}
	s.mu.Unlock()
	return errors.Join(p.failed...)
}

// judgeNext judges the next part of the table, and returns the number of its flows.
func (s *Sweeper) judgeNext(r rules) (int, error) {
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

// judgeAgain judges the queue again if the rules have changed, and removes the flows that need not
// end any more.
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

// flush ends flows of the queue that BeforeEnd has received, as many as Config.EndRate allows. If
// flows are left, it returns the time until the rate allows more.
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

// endsNow reports whether queued flows must be ended before more flows are judged. With BeforeEnd,
// this is so only once there are maxQueue flows, or announceInterval has passed: each call of
// BeforeEnd may cost a transaction.
func (s *Sweeper) endsNow(now time.Time) bool {
	p := s.pass
	return s.cfg.BeforeEnd == nil || p.walked || p.announced > 0 || len(p.queue) >= maxQueue ||
		now.Sub(p.announcedAt) >= announceInterval
}

// announce passes the queue to BeforeEnd, unless the queue begins with flows that BeforeEnd has
// received. It reports whether it called BeforeEnd.
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
		p.failed = append(p.failed, fmt.Errorf("conntrack: BeforeEnd: %w", err))
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
