// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"time"

	"github.com/wayleave/wayleave/policy"
)

// outcome collects what came of the calls of one round.
type outcome struct {
	errs []error
	// general is an error after which the state of all objects is unknown.
	general error
	// objects at fault, and the endpoints that refer to them.
	objects map[policy.Key]error
}

func newOutcome() outcome { return outcome{objects: map[policy.Key]error{}} }

// of returns why the endpoint is at fault, or nil.
func (o *outcome) of(k policy.Key) error {
	if err := o.objects[k]; err != nil {
		return err
	}
	return o.general
}

func (o *outcome) err() error { return errors.Join(o.errs...) }

// add takes in the error of one call. What is about another node is no fault of any endpoint here.
// Whatever else is not clearly about one endpoint, host endpoint, policy or profile counts as
// general.
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

// round brings all dataplanes to the state that the work leads to, and tries again what failed
// before.
func (d *Driver) round(ctx context.Context, w work) outcome {
	start := time.Now()
	d.begun()
	d.recordTargets(w.batch)
	result := newOutcome()
	late := d.removeEndpoints(ctx, w.batch)
	resynced, repaired := false, 0
	for i, s := range d.stages {
		var part Batch
		if i == 0 {
			part = d.firstBatch(w.batch)
		} else {
			part = s.batch(w.batch, &result)
		}
		resync := s.lost || w.resyncOf(i)
		err := s.program(ctx, part, resync)
		resynced = resynced || resync
		if w.drifted[i] && !s.lost {
			repaired++
		}
		if err == nil && len(s.stuck) > 0 {
			err = late[i] // it may be over, but only a retry completes the removal
		}
		result.add(err, d.targets)
	}
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

// begun notes that an attempt is under way.
func (d *Driver) begun() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Applying = true
}

// recordTargets records the endpoints of a batch: those that refer to a policy at fault are at fault
// too.
func (d *Driver) recordTargets(b Batch) {
	for _, e := range b.Events {
		switch e := e.(type) {
		case *EndpointUpdate:
			d.targets[e.Key] = e.Endpoint
		case *EndpointRemove:
			delete(d.targets, e.Key)
		case *HostEndpointUpdate:
			d.targets[e.Key] = e.HostEndpoint
		case *HostEndpointRemove:
			delete(d.targets, e.Key)
		case *InSync:
			d.sawInSync = true
		}
	}
}

// program applies the batch to one dataplane if there is anything to apply or to try again.
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

// unfinished returns a channel that is closed once a stage can finish without waiting, and the
// stage: one that can already, if there is one. The channel is nil if none has anything to finish.
func (d *Driver) unfinished() (first <-chan struct{}, stage int) {
	for i, s := range d.stages {
		f, ok := s.dp.(Finisher)
		if !ok {
			continue
		}
		ready := f.Unfinished()
		select {
		case <-ready:
			return ready, i
		default:
		}
		if first == nil {
			first, stage = ready, i
		}
	}
	return first, stage
}

// finish calls Finish of a stage. If that fails, a Resync follows.
func (d *Driver) finish(ctx context.Context, stage int) {
	err := d.stages[stage].dp.(Finisher).Finish(ctx)
	if err != nil && ctx.Err() == nil {
		d.cfg.Logger.Warn("cannot delete unused objects", "dataplane", stage, "err", err)
		d.missed(stage)
	}
}
