// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"

	"github.com/wayleave/wayleave/policy"
)

// WaitProgrammed returns once the endpoint (or host endpoint) is programmed in all dataplanes:
// first its policy, then its routes. It waits for the latest state of the endpoint that was sent
// before the call. If no state was sent yet, it waits for the first one. It also waits while the
// endpoint fails, is pending or is down. A dataplane for routes reports an endpoint as down until
// the endpoint's interface exists and is up.
//
// Errors: the context's error, joined with the endpoint's EndpointStatus.Err if there is one;
// ErrStopped.
func (d *Driver) WaitProgrammed(ctx context.Context, endpoint policy.Key) error {
	return d.withFault(endpoint, d.waitFor(ctx, func(p *progress) bool {
		ep := p.endpoints[endpoint]
		return ep != nil && ep.State == EndpointUp
	}, nil))
}

// WaitEndpoint is like WaitProgrammed, but also calls the function want with the endpoint's
// programmed state, and waits until want returns true. For example, want can check for an address.
// The function want must not change the endpoint.
//
// Errors: the errors of WaitProgrammed, and an error if the key is not the key of a workload
// endpoint.
func (d *Driver) WaitEndpoint(ctx context.Context, endpoint policy.Key, want func(*Endpoint) bool) error {
	if endpoint.Kind != policy.KindWorkloadEndpoint {
		return fmt.Errorf("dataplane: wait for %s: not a workload endpoint", endpoint)
	}
	var state *Endpoint
	return d.withFault(endpoint, d.waitFor(ctx, func(p *progress) bool {
		ep := p.endpoints[endpoint]
		if ep == nil || ep.State != EndpointUp {
			return false
		}
		state = ep.endpoint
		return state != nil
	}, func() bool { return want(state) }))
}

// withFault adds the endpoint's error to the context's error, if the endpoint fails, is pending or
// is down.
func (d *Driver) withFault(endpoint policy.Key, err error) error {
	if err == nil || errors.Is(err, ErrStopped) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ep := d.status.endpoints[endpoint]
	if ep == nil || ep.Err == nil {
		return err
	}
	verb := "fails"
	if ep.State != EndpointFailed {
		verb = "is " + ep.State.String()
	}
	return fmt.Errorf("%w; %s %s: %w", err, endpoint, verb, ep.Err)
}

// WaitApplied returns once all dataplanes have applied the batch with InSync, and all batches that
// were sent before the call.
//
// A batch counts as applied even if some of its objects are not programmed yet, for one of these
// reasons:
//
//   - A dataplane cannot program the object.
//   - The interface of the object is down.
//   - A dataplane continues to program the object after Apply has returned (see
//     ApplyError.Pending).
//
// Status lists the endpoints that are not programmed. If a calcgraph.Runner sends the batches, call
// its Barrier first: then WaitApplied also waits for all updates that the Runner has received.
//
// Errors: the context's error, or ErrStopped.
func (d *Driver) WaitApplied(ctx context.Context) error {
	d.mu.Lock()
	target := d.status.accepted
	d.mu.Unlock()
	return d.waitFor(ctx, func(p *progress) bool { return p.InSync && p.Applied >= target }, nil)
}

// waitFor returns once three things are true:
//
//   - Each batch that was sent before the call has been given to the dataplanes.
//   - The function condition returns true.
//   - The function accept returns true.
//
// waitFor calls condition with the lock held, and accept without the lock. A nil accept counts as
// true.
func (d *Driver) waitFor(ctx context.Context, condition func(p *progress) bool, accept func() bool) error {
	d.mu.Lock()
	target := d.status.accepted
	d.mu.Unlock()
	for {
		d.mu.Lock()
		done := d.status.finished >= target && condition(&d.status)
		changed := d.status.changed
		d.mu.Unlock()
		if done && (accept == nil || accept()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-d.life.stopped:
			return ErrStopped
		}
	}
}
