// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"time"

	"github.com/wayleave/wayleave/policy"
)

// outcome collects the errors of the calls in one round.
type outcome struct {
	errs []error
	// general is an error after which the state of all objects is unknown.
	general error
	// objects has the errors of the objects at fault, and of the endpoints that refer to them.
	objects map[policy.Key]error
	// inSync is set if InSync was received in this round or before.
	inSync bool
}

func newOutcome() outcome { return outcome{objects: map[policy.Key]error{}} }

// of returns the error of an endpoint, or nil. A general error is one of every endpoint.
func (o *outcome) of(k policy.Key) error {
	if err := o.objects[k]; err != nil {
		return err
	}
	return o.general
}

func (o *outcome) err() error { return errors.Join(o.errs...) }

// add records the error of one call. An error of an endpoint, host endpoint, policy or profile is one of that
// object, and of the endpoints that refer to it. An error of another node is one of no endpoint. Every other
// error is general.
func (o *outcome) add(err error, endpoints map[policy.Key]target) {
	if err == nil {
		return
	}
	o.errs = append(o.errs, err)
	objects, general := ApplyErrors(err)
	if general && o.general == nil {
		o.general = err
	}
	for k, e := range objects {
		switch k.Kind {
		case policy.KindWorkloadEndpoint, policy.KindHostEndpoint:
			o.addFault(k, e)
		case policy.KindPolicy, policy.KindStagedPolicy, policy.KindProfile:
			o.addFault(k, e)
			for ek, ep := range endpoints {
				if ep.refersTo(k) {
					o.addFault(ek, e)
				}
			}
		case policy.KindNode:
			o.addFault(k, e)
		default:
			if o.general == nil {
				o.general = e
			}
		}
	}
}

func (o *outcome) addFault(k policy.Key, err error) {
	if o.objects[k] == nil {
		o.objects[k] = err
	}
}

// round brings all dataplanes to the desired state after the work, and retries what failed before.
func (d *Driver) round(ctx context.Context, w work) outcome {
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
	if recovered := d.record(&result, info, now, w.last, repaired); recovered {
		d.cfg.Logger.Info("programming works again")
	}
	if d.cfg.Hooks.Applied != nil {
		d.cfg.Hooks.Applied(info)
	}
	return result
}

// record records the result of a round up to a batch. It reports recovery: the last round failed and this one
// did not.
func (d *Driver) record(
	result *outcome, info AppliedInfo, now time.Time, last uint64, repaired int,
) (recovered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	recovered = d.status.record(result, info, last)
	d.status.markRemoved(result, last, d.pipeline.leaving)
	d.stats.count(info, now, repaired)
	return recovered
}

// program applies the batch to one dataplane, after a Resync if resync is set. It does nothing if the batch is
// empty and there is nothing to retry.
func (s *stage) program(ctx context.Context, b Batch, resync bool) error {
	var errs []error
	if resync {
		err := s.dp.Resync(ctx)
		_, s.lost = ApplyErrors(err)
		errs = append(errs, err)
	}
	if !b.Empty() || (s.failing && !resync) {
		errs = append(errs, s.apply(ctx, b))
	} else if !resync {
		return nil
	}
	err := errors.Join(errs...)
	s.failing = err != nil
	return err
}

// apply applies the batch. A Finisher may leave deletions for later.
func (s *stage) apply(ctx context.Context, b Batch) error {
	if f, ok := s.dp.(Finisher); ok {
		return f.ApplyVisible(ctx, b)
	}
	return s.dp.Apply(ctx, b)
}

// finish calls Finish of the stage with this index. If that fails, a Resync follows.
func (d *Driver) finish(ctx context.Context, stage int) {
	err := d.pipeline.finish(ctx, stage)
	if err != nil && ctx.Err() == nil {
		d.cfg.Logger.Warn("cannot delete unused objects", "dataplane", stage, "err", err)
		d.missed(stage)
	}
}
