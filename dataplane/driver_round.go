// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"time"

	"github.com/wayleave/wayleave/policy"
)

// roundResult collects the errors of the calls in one round.
type roundResult struct {
	errs []error
	// general is an error after which the state of all objects is unknown.
	general error
	// objects has the errors of the objects at fault, and of the endpoints that refer to these
	// objects.
	objects map[policy.Key]error
	// waiting has the errors of objects that are down or pending, and of the endpoints that refer
	// to these objects. They are no failures.
	waiting map[policy.Key]*ApplyError
	// unjudged has the endpoints that have traffic which policy does not see, with the reason: see
	// Limited.
	unjudged map[policy.Key]string
	// inSync is set if InSync was received in this round or before.
	inSync bool
}

func newRoundResult() roundResult {
	return roundResult{
		objects: map[policy.Key]error{}, waiting: map[policy.Key]*ApplyError{}, unjudged: map[policy.Key]string{},
	}
}

// of returns the error of an endpoint, or nil. A general error counts as an error of every
// endpoint.
func (r *roundResult) of(k policy.Key) error {
	switch {
	case r.objects[k] != nil:
		return r.objects[k]
	case r.general != nil:
		return r.general
	}
	if e := r.waiting[k]; e != nil {
		return e
	}
	return nil
}

// waits returns the error of an endpoint that is down or pending and has no other error.
func (r *roundResult) waits(k policy.Key) *ApplyError {
	if r.objects[k] != nil || r.general != nil {
		return nil
	}
	return r.waiting[k]
}

// pends reports whether an object is pending although the call of its dataplane has returned.
func (r *roundResult) pends() bool {
	for _, e := range r.waiting {
		if e.Pending {
			return true
		}
	}
	return false
}

// err returns a join of all errors, without those of objects that are down or pending.
func (r *roundResult) err() error { return errors.Join(r.errs...) }

// add records the error of one call of a dataplane:
//
//   - An error of an endpoint, host endpoint, policy or profile counts for that object, and for the
//     endpoints that refer to it.
//   - An error of a node counts for no endpoint.
//   - Every other error is general.
//   - If the dataplane is a Watcher, an object that is down or pending is no failure.
func (r *roundResult) add(err error, endpoints map[policy.Key]target, watches bool) {
	if waiting, others := splitWaiting(err); watches {
		for k, e := range waiting {
			if e.Down && endpoints[k] == nil {
				others = errors.Join(others, e) // it is being removed
				continue
			}
			for _, affected := range affectedBy(k, endpoints) {
				if r.waiting[affected] == nil {
					r.waiting[affected] = e
				}
			}
		}
		err = others
	}
	if err == nil {
		return
	}
	r.errs = append(r.errs, err)
	objects, general := ApplyErrors(err)
	if general && r.general == nil {
		r.general = err
	}
	for k, e := range objects {
		affected := affectedBy(k, endpoints)
		if affected == nil && r.general == nil {
			r.general = e
		}
		for _, k := range affected {
			if r.objects[k] == nil {
				r.objects[k] = e
			}
		}
	}
}

// affectedBy returns the objects to which a fault of object k counts: k, and the endpoints that
// refer to it. It returns nil if the fault is general.
func affectedBy(k policy.Key, endpoints map[policy.Key]target) []policy.Key {
	switch k.Kind {
	case policy.KindWorkloadEndpoint, policy.KindHostEndpoint, policy.KindNode:
		return []policy.Key{k}
	case policy.KindPolicy, policy.KindStagedPolicy, policy.KindProfile:
		affected := []policy.Key{k}
		for ek, ep := range endpoints {
			if ep.refersTo(k) {
				affected = append(affected, ek)
			}
		}
		return affected
	default:
		return nil
	}
}

// round brings all dataplanes to the desired state after the work, and retries what failed before.
func (d *Driver) round(ctx context.Context, w work) roundResult {
	start := time.Now()
	d.mu.Lock()
	d.stats.Applying = true
	d.mu.Unlock()
	result, resynced, repaired := d.pipeline.program(ctx, &w)
	now := time.Now()
	info := AppliedInfo{
		Duration: now.Sub(start), Batches: len(w.batches), Events: len(w.batch.Events), Resync: resynced,
		Err: result.err(),
	}
	recovered, down := d.record(&result, info, now, w.last, repaired)
	if recovered {
		d.cfg.Logger.Info("programming works again")
	}
	for _, k := range down {
		d.cfg.Logger.Info("endpoint is down", "endpoint", k, "reason", result.waiting[k])
	}
	if d.cfg.Hooks.Applied != nil {
		d.cfg.Hooks.Applied(info)
	}
	return result
}

// record records the result of a round in status and counters. last is the number of its last
// batch. It reports recovery: the round before failed and this one did not. It returns the
// endpoints that are down and were not down before.
func (d *Driver) record(
	result *roundResult, info AppliedInfo, now time.Time, last uint64, repaired int,
) (recovered bool, down []policy.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	recovered, down = d.status.record(result, info, last)
	d.status.markRemoved(result, last, d.pipeline.leaving)
	d.stats.count(info, now, repaired)
	return recovered, down
}

// program applies the batch to one dataplane, after a Resync if resync is set. If the batch is
// empty, it calls Apply only to retry. If it calls both methods, only Apply's list of endpoints
// that are down counts, because it is newer.
func (be *backend) program(ctx context.Context, b Batch, resync bool) error {
	var errs []error
	if resync {
		err := be.dp.Resync(ctx)
		_, be.lost = ApplyErrors(err)
		errs = append(errs, err)
	}
	if !b.Empty() || (be.failing && !resync) {
		for i := range errs {
			_, errs[i] = splitWaiting(errs[i])
		}
		errs = append(errs, be.apply(ctx, b))
	} else if !resync {
		return nil
	}
	err := errors.Join(errs...)
	be.failing = err != nil
	_, be.generalError = ApplyErrors(err)
	return err
}

// apply applies the batch. A Finisher may leave deletions for later.
func (be *backend) apply(ctx context.Context, b Batch) error {
	if f, ok := be.dp.(Finisher); ok {
		return f.ApplyVisible(ctx, b)
	}
	return be.dp.Apply(ctx, b)
}

// finish calls Finish of the backend with this index. If that fails, a Resync follows.
func (d *Driver) finish(ctx context.Context, backend int) {
	err := d.pipeline.finish(ctx, backend)
	if err != nil && ctx.Err() == nil {
		d.cfg.Logger.Warn("cannot delete unused objects", "dataplane", backend, "err", err)
		d.missed(backend)
	}
}
