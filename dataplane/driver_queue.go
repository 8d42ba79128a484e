// SPDX-License-Identifier: Apache-2.0

package dataplane

import "context"

// maxDrifts limits the drifts that are kept for Hooks.Drifted until the next round (one pass of the
// loop of Run). Stats also counts the drifts that were not kept.
const maxDrifts = 100

// queue is the work that waits for Run. The driver's lock guards it.
type queue struct {
	batches []Batch
	room    chan struct{} // closed, and replaced, when the batches are taken
	resync  bool
	// resyncs are the callers of Resync that wait for its error.
	resyncs []chan<- error
	plans   []planning
	// drifted has the indexes of the backends to resync. faulted has the indexes of the backends
	// whose list of objects at fault, down or pending has changed: the Driver calls their Apply
	// again.
	drifted, faulted map[int]bool
	drifts           []Drift
}

// planning is a request for a plan, and the channel for the answer.
type planning struct {
	batch Batch
	done  chan<- planned
}

type planned struct {
	text string
	err  error
}

func newQueue() queue {
	return queue{room: make(chan struct{}), drifted: map[int]bool{}, faulted: map[int]bool{}}
}

// wakeup holds a token while its goroutine has to wake up.
type wakeup chan struct{}

func newWakeup() wakeup { return make(wakeup, 1) }

func (w wakeup) signal() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// work is the input of one round. The zero work is a retry.
type work struct {
	queue
	batch Batch
	// last is the number of the last batch that is merged into batch.
	last uint64
}

// programs reports whether there is anything to program.
func (w *work) programs() bool {
	return len(w.batches) > 0 || w.resync || len(w.drifted) > 0 || len(w.faulted) > 0
}

// resyncOf reports whether the backend is to compare the kernel with the desired state.
func (w *work) resyncOf(backend int) bool { return w.resync || w.drifted[backend] }

// Send adds a batch to the Driver's queue and returns. It blocks while there are MaxQueued batches
// in the queue. The Driver applies batches in the order of the calls of Send. It merges all batches
// in the queue and applies them as one. No batch is lost or applied twice. To wait until the batch
// is applied, call WaitProgrammed or WaitApplied after Send. The caller must not change the batch
// after the call.
//
// Errors: the context's, or ErrStopped. After an error, the batch is not in the queue.
func (d *Driver) Send(ctx context.Context, b Batch) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		room, err := d.put(b)
		if room == nil || err != nil {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		case <-d.life.stopped:
			return ErrStopped
		}
	}
}

// put adds a batch to the queue, or returns a channel that is closed once the queue has space
// again.
func (d *Driver) put(b Batch) (room <-chan struct{}, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.life.stopped:
		return nil, ErrStopped
	default:
	}
	if len(d.queue.batches) >= d.cfg.MaxQueued {
		return d.queue.room, nil
	}
	d.queue.batches = append(d.queue.batches, b)
	d.status.accept(b)
	d.wake.signal()
	return nil, nil
}

// Resync makes every dataplane compare the kernel with the desired state and repair the
// differences. It returns when this is done. The Driver applies the batches in the queue before the
// comparison or together with it.
//
// Errors:
//
//   - a join of the dataplanes' errors; the Driver retries, as after errors of Apply
//   - the context's error; the resync may still happen
//   - ErrStopped
func (d *Driver) Resync(ctx context.Context) error {
	done := make(chan error, 1)
	d.requestResync(done)
	return answered(ctx, d, done, func(err error) error { return err })
}

// requestResync requests a resync of all dataplanes. If done is not nil, it receives the error.
func (d *Driver) requestResync(done chan<- error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue.resync = true
	if done != nil {
		d.queue.resyncs = append(d.queue.resyncs, done)
	}
	d.wake.signal()
}

// Plan returns the changes that the batch would make if it were sent now, after the batches in the
// queue. It does not make them. The text has the changes of every dataplane that is a Planner, in
// the order of the dataplanes. Plan assumes that each dataplane can program all objects.
//
// Errors: a join of the dataplanes' errors; the context's; ErrStopped.
func (d *Driver) Plan(ctx context.Context, b Batch) (string, error) {
	done := make(chan planned, 1)
	d.mu.Lock()
	d.queue.plans = append(d.queue.plans, planning{b, done})
	d.wake.signal()
	d.mu.Unlock()
	var text string
	err := answered(ctx, d, done, func(p planned) error {
		text = p.text
		return p.err
	})
	return text, err
}

// answered waits until the goroutine of Run answers, and calls handle with the answer.
func answered[T any](ctx context.Context, d *Driver, done <-chan T, handle func(T) error) error {
	select {
	case answer := <-done:
		return handle(answer)
	case <-ctx.Done():
		return ctx.Err()
	case <-d.life.stopped:
		return ErrStopped
	}
}

// take empties the queue and merges its batches into one.
func (d *Driver) take() work {
	d.mu.Lock()
	w := work{queue: d.queue, last: d.status.accepted}
	d.queue = newQueue()
	close(w.room)
	d.mu.Unlock()
	for _, drift := range w.drifts {
		if d.cfg.Hooks.Drifted != nil {
			d.cfg.Hooks.Drifted(drift)
		}
	}
	w.batch = d.merger.merge(w.batches)
	return w
}

// reply sends the result of the round to waiting callers, and makes the plans that were requested.
func (w *work) reply(ctx context.Context, d *Driver, err error) {
	for _, done := range w.resyncs {
		done <- err
	}
	for _, p := range w.plans {
		text, err := d.pipeline.plan(ctx, p.batch)
		p.done <- planned{text, err}
	}
}
