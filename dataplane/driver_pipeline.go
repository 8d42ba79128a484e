// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// pipeline applies the work of one round to the dataplanes, in order. A fault in one dataplane
// withholds events from the later ones. Only the goroutine of Run, or Teardown, uses a pipeline.
type pipeline struct {
	// backends are the dataplanes in order of dependency.
	backends []*backend
	// leaving are the endpoints that are being removed.
	leaving map[policy.Key]*removal
	// targets has the endpoints and host endpoints of the batches so far.
	targets map[policy.Key]target
	// inSync is set once InSync was received.
	inSync bool
}

func newPipeline(dataplanes []Dataplane) pipeline {
	p := pipeline{leaving: map[policy.Key]*removal{}, targets: map[policy.Key]target{}}
	for _, dp := range dataplanes {
		p.backends = append(p.backends, newBackend(dp))
	}
	return p
}

// program brings all dataplanes to the desired state after the work, and retries what failed
// before. It reports whether a dataplane was resynced, and how many were resynced because of drift.
func (p *pipeline) program(ctx context.Context, w *work) (result roundResult, resynced bool, repaired int) {
	p.recordTargets(w.batch)
	result = newRoundResult()
	result.inSync = p.inSync
	late := p.removeEndpoints(ctx, w.batch)
	for i, be := range p.backends {
		var part Batch
		if i == 0 {
			part = p.firstBatch(w.batch)
		} else {
			part = be.batch(w.batch, &result)
		}
		resync := be.lost || w.resyncOf(i)
		be.failing = be.failing || w.faulted[i]
		err := be.program(ctx, part, resync)
		resynced = resynced || resync
		if w.drifted[i] && !be.lost {
			repaired++
		}
		if err == nil && len(be.stuck) > 0 {
			err = late[i] // the fault may be gone, but only a retry completes the removal
		}
		_, watches := be.dp.(Watcher)
		result.add(err, p.targets, watches)
		if l, ok := be.dp.(Limited); ok {
			maps.Copy(result.unjudged, l.Unjudged())
		}
	}
	return result, resynced, repaired
}

// recordTargets records the endpoints of a batch. roundResult.add needs them to find the endpoints
// that refer to a policy at fault.
func (p *pipeline) recordTargets(b Batch) {
	for _, e := range b.Events {
		switch e := e.(type) {
		case *EndpointUpdate:
			p.targets[e.Key] = e.Endpoint
		case *EndpointRemove:
			delete(p.targets, e.Key)
		case *HostEndpointUpdate:
			p.targets[e.Key] = e.HostEndpoint
		case *HostEndpointRemove:
			delete(p.targets, e.Key)
		case *InSync:
			p.inSync = true
		}
	}
}

// unfinished has a backend that has something to finish, and a channel that is closed once it can
// do so without waiting.
type unfinished struct {
	backend int
	ready   <-chan struct{}
}

// unfinished returns the backends that have something to finish. It leaves out a backend while a
// later one lags.
func (p *pipeline) unfinished() (all []unfinished) {
	for i, be := range p.backends {
		f, ok := be.dp.(Finisher)
		if !ok || slices.ContainsFunc(p.backends[i+1:], (*backend).lags) {
			continue
		}
		if ready := f.Unfinished(); ready != nil {
			all = append(all, unfinished{i, ready})
		}
	}
	return all
}

// finish calls Finish of the backend with this index.
func (p *pipeline) finish(ctx context.Context, backend int) error {
	return p.backends[backend].dp.(Finisher).Finish(ctx)
}

// plan returns the changes that the batch would make.
func (p *pipeline) plan(ctx context.Context, b Batch) (string, error) {
	var text strings.Builder
	var errs []error
	for i, be := range p.backends {
		planner, ok := be.dp.(Planner)
		if !ok {
			continue
		}
		part, err := planner.Plan(ctx, b)
		if err != nil {
			errs = append(errs, fmt.Errorf("dataplane: plan of dataplane %d: %w", i, err))
		}
		text.WriteString(part)
	}
	return text.String(), errors.Join(errs...)
}

// teardown removes everything from the dataplanes, the last dataplane first.
func (p *pipeline) teardown(ctx context.Context) error {
	var errs []error
	for _, be := range slices.Backward(p.backends) {
		errs = append(errs, be.dp.Teardown(ctx))
	}
	return errors.Join(errs...)
}
