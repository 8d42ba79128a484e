// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"github.com/wayleave/wayleave/kubernetes/convert"
)

// requestTimeout is the timeout of one request.
const requestTimeout = 10 * time.Second

// kind is the kind of a task.
type kind uint8

const (
	eventTask     kind = iota // the Event of an object, by the leader
	podTask                   // the Event of a pod of this node that cannot be programmed
	conditionTask             // the condition of an object, by the leader
	nodeTask                  // the condition and annotation of the Node
	reportTask                // the node's report
)

// part returns the part of a Reporter that a task belongs to.
func (k kind) part() string {
	return [...]string{PartEvents, PartEvents, PartConditions, PartNode, PartReport}[k]
}

// task is a write that may be due. A task of the first three kinds without an object means: do
// the next task of its backlog.
type task struct {
	kind   kind
	object convert.Object
}

// backlog has waiting tasks, the oldest first, and limits their rate.
type backlog struct {
	waiting []task
	limit   *rate.Limiter
}

// Run writes to the API until ctx is done, and returns the error of ctx. If another call of Run has
// not returned, it returns ErrRunning. Requests that fail do not end Run: it sends them again after
// 1 s to 5 min. Before Run returns, it releases the Lease. This takes up to 20 s if the server does
// not answer.
func (r *Reporter) Run(ctx context.Context) error {
	queue, err := r.start()
	if err != nil {
		return err
	}
	defer r.stop(queue)
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	others.Go(func() { r.elect(ctx) })
	if r.cfg.Revisions != nil {
		others.Go(func() { r.follow(ctx) })
	}
	defer context.AfterFunc(ctx, queue.ShutDown)()
	for {
		t, shutdown := queue.Get()
		if shutdown || ctx.Err() != nil {
			return ctx.Err()
		}
		if again := r.do(ctx, t); again > 0 {
			queue.AddAfter(t, again)
		}
		queue.Done(t)
	}
}

// start makes the queue and schedules all tasks.
func (r *Reporter) start() (workqueue.TypedRateLimitingInterface[task], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue != nil {
		return nil, ErrRunning
	}
	r.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[task](time.Second, 5*time.Minute),
	)
	r.add(task{kind: nodeTask})
	r.add(task{kind: reportTask})
	for _, b := range r.backlogs {
		b.waiting = nil
	}
	for id, o := range r.objects {
		o.event.queued, o.podEvent.queued, o.condition.queued = false, false, false
		r.schedule(id, o)
	}
	return r.queue, nil
}

func (r *Reporter) stop(queue workqueue.TypedRateLimitingInterface[task]) {
	queue.ShutDown()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = nil
}

// do carries out a task, and returns the time until it is due again. 0 means that it is due when
// something changes.
func (r *Reporter) do(ctx context.Context, t task) (again time.Duration) {
	switch {
	case t.kind == nodeTask:
		return r.writeNode(ctx)
	case t.kind == reportTask:
		return r.writeReport(ctx)
	case t.object == convert.Object{}:
		return r.writeNext(ctx, r.backlogs[t.kind])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enqueue(t) // it failed, and its pause is over
	return 0
}

// enqueue adds a task to its backlog. The caller holds mu.
func (r *Reporter) enqueue(t task) {
	b := r.backlogs[t.kind]
	if b.waiting = append(b.waiting, t); len(b.waiting) > spareTasks+4*len(r.objects) {
		r.compact(b)
	}
	r.add(task{kind: t.kind})
}

// spareTasks is the number of tasks that a backlog may have besides one for each object.
const spareTasks = 1000

// compact removes the tasks of deleted objects, and repeated ones. Otherwise the backlog would grow
// without limit if objects are created and deleted faster than it is written. It keeps tasks that
// have failed. The caller holds mu.
func (r *Reporter) compact(b *backlog) {
	kept, seen := []task(nil), map[task]bool{}
	for _, t := range b.waiting {
		if !seen[t] && (r.objects[t.object] != nil || r.queue.NumRequeues(t) > 0) {
			kept, seen[t] = append(kept, t), true
		}
	}
	b.waiting = kept
}

// writeNext carries out the next task of a backlog, and returns the time until the one after it.
// While the server is unavailable, the backlog pauses: otherwise each of very many objects would
// wait for a timeout.
func (r *Reporter) writeNext(ctx context.Context, b *backlog) (again time.Duration) {
	if pause := time.Until(r.pausedUntil); pause > 0 {
		return pause
	}
	r.mu.Lock()
	t, o, wanted := r.next(b)
	if o == nil {
		r.mu.Unlock()
		return 0
	}
	if !b.limit.Allow() {
		r.mu.Unlock()
		return time.Duration(float64(time.Second) / float64(b.limit.Limit()))
	}
	b.waiting = b.waiting[1:]
	queue := r.queue
	r.mu.Unlock()
	if err := r.write(ctx, t, o, wanted); err != nil {
		queue.AddRateLimited(t)
		if unavailable(err) {
			r.pausedUntil = time.Now().Add(requestTimeout)
		}
	} else {
		queue.Forget(t)
	}
	return time.Nanosecond
}

// next returns the first task of a backlog that is due, without removing it. The object is nil if
// there is none. The caller holds mu.
func (r *Reporter) next(b *backlog) (task, *object, notice) {
	for ; len(b.waiting) > 0; b.waiting = b.waiting[1:] {
		t := b.waiting[0]
		if o := r.objects[t.object]; o != nil {
			s, wanted, due := r.due(t, o)
			if due {
				return t, o, wanted
			}
			s.queued = false
		}
		delete(r.unsent, t)
		r.queue.Forget(t)
	}
	return task{}, nil, notice{}
}

// write writes the wanted Event or condition of an object.
func (r *Reporter) write(ctx context.Context, t task, o *object, wanted notice) error {
	send := r.writeEvent
	if t.kind == conditionTask {
		send = r.writeCondition
	}
	err := send(ctx, t, wanted)
	if dropped(err) {
		r.cfg.Logger.Debug("write dropped", "object", t.object, "part", t.kind.part(), "err", err)
		r.count(func(s *Stats) { s.Dropped++ })
		err = nil
	}
	r.recordResult(ctx, t.kind.part(), err)
	if err != nil {
		return err
	}
	delete(r.unsent, t)
	r.mu.Lock()
	defer r.mu.Unlock()
	s, now, _ := r.due(t, o)
	s.queued = false
	if t.kind == conditionTask || now.text != "" {
		s.written = wanted
	}
	if r.objects[t.object] == o {
		r.schedule(t.object, o) // it may have changed meanwhile
	}
	return nil
}

// dropped reports whether a write is not tried again after an error. This is so if the object or
// its namespace is gone, or if the server does not accept the content.
func dropped(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.HasStatusCause(err, "NamespaceTerminating")
}

// unavailable reports whether an error concerns the server as a whole, not one object.
func unavailable(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err)
}

// recordResult records the result of a part. It logs an error once, until the part succeeds or
// another error occurs.
func (r *Reporter) recordResult(ctx context.Context, part string, err error) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	last := r.stats.Errors[part]
	if err == nil {
		delete(r.stats.Errors, part)
	} else {
		r.stats.Errors[part] = err
		r.stats.Failed++
	}
	r.mu.Unlock()
	switch {
	case err == nil && last != nil:
		r.cfg.Logger.Info("reporting works again", "part", part)
	case err == nil:
	default:
		level := slog.LevelWarn
		if last != nil && apierrors.ReasonForError(last) == apierrors.ReasonForError(err) {
			level = slog.LevelDebug
		}
		r.cfg.Logger.Log(ctx, level, "reporting failed", "part", part, "err", err)
	}
}

func (r *Reporter) count(change func(*Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.stats)
}

// follow records the revisions that are in the kernel, checked once a second.
func (r *Reporter) follow(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		revisions := maps.Clone(r.cfg.Revisions())
		r.mu.Lock()
		same := maps.Equal(revisions, r.applied)
		r.mu.Unlock()
		if !same {
			err := r.cfg.Barrier(ctx)
			if ctx.Err() != nil {
				return
			}
			r.recordResult(ctx, PartBarrier, err)
			if err == nil {
				r.mu.Lock()
				r.applied = revisions
				r.add(task{kind: reportTask})
				r.mu.Unlock()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// backoff is the pause after a failed request. It doubles with each failure.
type backoff struct{ delay time.Duration }

// after returns the time until the next request: least after a success, and up to most after
// failures. Up to a fifth is added at random.
func (b *backoff) after(err error, least, most time.Duration) time.Duration {
	if b.delay = max(least, min(2*b.delay, most)); err == nil {
		b.delay = 0
		return wait.Jitter(least, 0.2)
	}
	return wait.Jitter(b.delay, 0.2)
}
