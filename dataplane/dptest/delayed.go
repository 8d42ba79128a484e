// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

var (
	_ dataplane.Dataplane = (*Delayed)(nil)
	_ dataplane.Watcher   = (*Delayed)(nil)
)

var errDelayed = errors.New("not applied yet")

// Delayed makes a dataplane asynchronous. Its method Apply returns at once, and reports the
// endpoints of the batch as pending. Watch then applies the batch to the inner dataplane, and
// reports that the endpoints are no longer pending.
//
// A Delayed is safe for concurrent use. It calls the inner dataplane from one goroutine at a time.
type Delayed struct {
	inner dataplane.Dataplane

	mu     sync.Mutex
	inSync bool
	// waiting has the batches that were not applied yet, and pending the endpoints in them.
	waiting []dataplane.Batch
	pending map[policy.Key]bool
	// fault is the error of the inner dataplane's last call.
	fault error
	wake  chan struct{}
}

// NewDelayed returns an asynchronous dataplane.
func NewDelayed(inner dataplane.Dataplane) *Delayed {
	return &Delayed{inner: inner, pending: map[policy.Key]bool{}, wake: make(chan struct{}, 1)}
}

// Apply stores the batch, so that Watch applies it later. For each endpoint in a stored batch,
// Apply returns an *ApplyError with Pending set. For all other objects, it returns the last errors
// of the inner dataplane.
//
// In two cases, Apply applies the batch at once, and returns the error of the inner dataplane:
//
//   - The desired state is not in sync yet: no batch up to and including this one has InSync.
//   - There is no endpoint in this batch, nor in a stored batch.
func (d *Delayed) Apply(ctx context.Context, b dataplane.Batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inSync = d.inSync || b.CarriesInSync()
	if d.inSync {
		for _, e := range b.Events {
			if key, ok := endpointOf(e); ok {
				d.pending[key] = true
			}
		}
	}
	d.waiting = append(d.waiting, b)
	if len(d.pending) == 0 {
		d.catchUpLocked(ctx)
		return d.fault
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
	errs := d.otherFaultsLocked()
	for _, key := range slices.SortedFunc(maps.Keys(d.pending), policy.Key.Compare) {
		errs = append(errs, &dataplane.ApplyError{
			Backend: "delayed", Op: "apply", Object: key, Err: errDelayed, Pending: true,
		})
	}
	return errors.Join(errs...)
}

// otherFaultsLocked returns the last errors of the inner dataplane, without those of pending
// endpoints.
func (d *Delayed) otherFaultsLocked() (errs []error) {
	objects, general := dataplane.ApplyErrors(d.fault)
	if general {
		return []error{d.fault}
	}
	for key, err := range objects {
		if !d.pending[key] {
			errs = append(errs, err)
		}
	}
	return errs
}

// endpointOf returns the key of the workload or host endpoint that an event makes or removes.
func endpointOf(e dataplane.Event) (policy.Key, bool) {
	switch e := e.(type) {
	case *dataplane.EndpointUpdate:
		return e.Key, true
	case *dataplane.EndpointRemove:
		return e.Key, true
	case *dataplane.HostEndpointUpdate:
		return e.Key, true
	case *dataplane.HostEndpointRemove:
		return e.Key, true
	}
	return policy.Key{}, false
}

// catchUpLocked applies the stored batches.
func (d *Delayed) catchUpLocked(ctx context.Context) {
	var err error
	for _, b := range d.waiting {
		err = d.inner.Apply(ctx, b)
	}
	d.waiting, d.fault = nil, err
	clear(d.pending)
}

// Resync applies the stored batches and resyncs the inner dataplane. It returns the errors of the
// inner dataplane.
func (d *Delayed) Resync(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.catchUpLocked(ctx)
	return errors.Join(d.fault, d.inner.Resync(ctx))
}

// Teardown discards the stored batches, and calls Teardown of the inner dataplane. It returns the
// error of that call.
func (d *Delayed) Teardown(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting, d.fault, d.inSync = nil, nil, false
	clear(d.pending)
	return d.inner.Teardown(ctx)
}

// Watch applies the stored batches, and then reports a Drift with OnlyFaults set, so that the
// Driver calls Apply again. It does not watch the inner dataplane. It returns the error of ctx.
func (d *Delayed) Watch(ctx context.Context, drifted func(dataplane.Drift)) error {
	for {
		d.mu.Lock()
		waiting := len(d.pending) > 0
		if waiting {
			d.catchUpLocked(ctx)
		}
		d.mu.Unlock()
		if waiting {
			drifted(dataplane.Drift{Backend: "delayed", Object: "endpoints", OnlyFaults: true})
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.wake:
		}
	}
}
