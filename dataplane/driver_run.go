// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/wayleave/wayleave/policy"
)

// Run programs the batches that Send has added, until the context is done or Shutdown is called. If
// the context is done during an attempt to program a batch, the attempt is interrupted. When Run
// returns, the kernel keeps its state. Run can be called once.
//
// After Shutdown, Run returns nil. Errors: the context's; ErrRunning or ErrStopped on a second
// call.
func (d *Driver) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := d.life.begin(cancel); err != nil {
		return err
	}
	defer d.life.end()
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	for i, be := range d.pipeline.backends {
		if w, ok := be.dp.(Watcher); ok {
			watchers.Go(func() { d.watch(ctx, i, w) })
		}
	}
	l := loop{
		driver: d,
		back:   backoff{least: d.cfg.MinBackoff, most: d.cfg.MaxBackoff},
		limit:  limiter{interval: d.cfg.MinInterval, burst: d.cfg.Burst},
	}
	return l.run(ctx)
}

// loop has the state of Run between rounds.
type loop struct {
	driver     *Driver
	back       backoff
	limit      limiter
	retry      <-chan time.Time // nil while there is nothing to retry
	lastLogged string           // the last failure in the log
}

func (l *loop) run(ctx context.Context) error {
	d := l.driver
	var slow <-chan time.Time
	if d.cfg.ResyncEvery > 0 {
		ticker := time.NewTicker(d.cfg.ResyncEvery)
		defer ticker.Stop()
		slow = ticker.C
	}
	for {
		due := false // whether a retry is due
		all := d.pipeline.unfinished()
		switch chosen := l.wait(ctx, slow, all); chosen {
		case chosenDone, chosenQuit, chosenWork:
		case chosenSlow:
			d.requestResync(nil)
		case chosenRetry:
			due = true
			l.back.grow()
		default:
			d.finish(ctx, all[chosen-chosenFinish].backend)
			continue
		}
		l.waitForRate(ctx)
		// The method wait chooses at random among ready channels. After a stop, nothing must be
		// applied.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.life.quit:
			return nil
		default:
		}
		w := d.take()
		var result roundResult
		if w.programs() || due {
			result = d.round(ctx, w)
			l.conclude(ctx, result)
		}
		w.reply(ctx, d, result.err())
	}
}

// The results of loop.wait. An index from chosenFinish on stands for an unfinished backend: for the
// first one, it is chosenFinish.
const (
	chosenDone = iota
	chosenQuit
	chosenWork
	chosenSlow
	chosenRetry
	chosenFinish
)

// wait returns the index of the channel that is ready first, such as chosenWork. slow ticks when a
// Resync is due.
func (l *loop) wait(ctx context.Context, slow <-chan time.Time, all []unfinished) int {
	cases := make([]reflect.SelectCase, 0, chosenFinish+len(all))
	receive := func(channel any) {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(channel)})
	}
	receive(ctx.Done())
	receive(l.driver.life.quit)
	receive(l.driver.wake)
	receive(slow)
	receive(l.retry)
	for _, u := range all {
		receive(u.ready)
	}
	chosen, _, _ := reflect.Select(cases)
	return chosen
}

// waitForRate waits until the rate allows another attempt.
func (l *loop) waitForRate(ctx context.Context) {
	wait := l.limit.wait(time.Now())
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-l.driver.life.quit:
	case <-timer.C:
	}
}

// conclude schedules a retry, if one is needed, and logs new failures.
func (l *loop) conclude(ctx context.Context, result roundResult) {
	l.limit.count(time.Now())
	l.retry = nil
	wait, again := l.back.after(result)
	if !again {
		l.lastLogged = ""
		return
	}
	l.retry = time.After(wait)
	level := slog.LevelWarn
	text := result.err().Error()
	if text == l.lastLogged {
		level = slog.LevelDebug // logged already
	}
	l.lastLogged = text
	l.driver.cfg.Logger.Log(ctx, level, "programming failed", "err", result.err(), "retry_in", wait)
}

// Shutdown makes Run finish its current attempt and return, and waits until Run has returned.
// Batches in the queue are not applied. The kernel keeps its state: policy still applies to
// packets, and the next Driver continues from that state. To clear the kernel, call Teardown
// afterwards. If Run was not called before Shutdown, it cannot be called any more.
//
// Errors: the context's. If the context is done, the current attempt is interrupted, but it may not
// have ended yet when Shutdown returns.
func (d *Driver) Shutdown(ctx context.Context) error { return d.life.shutdown(ctx) }

// Teardown removes everything that the dataplanes have programmed, the last dataplane first. It
// continues after an error. It must not be called during Run: call Shutdown before.
//
// Errors: a join of the dataplanes' errors; ErrRunning.
func (d *Driver) Teardown(ctx context.Context) error {
	if err := d.life.occupy(true); err != nil {
		return err
	}
	defer func() { _ = d.life.occupy(false) }()
	return d.pipeline.teardown(ctx)
}

// limiter limits the rate of attempts.
type limiter struct {
	interval time.Duration
	burst    int
	// next is the earliest time of the next attempt if no burst is allowed.
	next time.Time
}

// wait returns how long to wait before an attempt.
func (l *limiter) wait(now time.Time) time.Duration {
	return l.next.Add(-time.Duration(l.burst-1) * l.interval).Sub(now)
}

// count counts an attempt.
func (l *limiter) count(now time.Time) {
	if l.next.Before(now) {
		l.next = now
	}
	l.next = l.next.Add(l.interval)
}

// backoff computes how long to wait before the next retry.
type backoff struct {
	least, most time.Duration
	next        time.Duration
	failing     map[policy.Key]error
	general     bool
}

// grow doubles the wait, up to the maximum.
func (b *backoff) grow() { b.next = min(2*b.next, b.most) }

// after returns whether a retry is needed after an attempt, and the wait before it. Up to half of
// the wait is random. After a success, the next wait is the shortest again. The same applies when
// an object fails that did not fail before. So a lasting fault of one object does not delay the
// retries for others.
func (b *backoff) after(r roundResult) (wait time.Duration, again bool) {
	fresh := r.general != nil && !b.general
	for k := range r.objects {
		if b.failing[k] == nil {
			fresh = true
		}
	}
	b.failing, b.general = r.objects, r.general != nil
	if fresh || b.next == 0 {
		b.next = b.least
	}
	if r.err() == nil {
		b.next = 0
		return 0, false
	}
	return jitter(b.next), true
}

// jitter returns a random time between half of most and most.
func jitter(most time.Duration) time.Duration { return most/2 + rand.N(most/2+1) }
