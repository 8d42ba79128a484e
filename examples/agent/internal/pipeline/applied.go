// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"sync"
)

// WaitApplied waits until all sources are in sync, and until all updates that they sent before the
// call are in the kernel. It does not wait for objects that cannot be programmed: the driver's
// status lists these.
//
// Errors: the error of ctx, calcgraph.ErrStopped or dataplane.ErrStopped.
func (p *Pipeline) WaitApplied(ctx context.Context) error {
	if err := p.runner.Barrier(ctx); err != nil {
		return err
	}
	return p.driver.WaitApplied(ctx)
}

// Round returns a channel that is closed after the driver's next attempt to program the desired
// state. The driver's status then has the result.
func (p *Pipeline) Round() <-chan struct{} { return p.rounds.next() }

// rounds implements Round. A round is one attempt of the driver to program the desired state. A
// rounds is safe for concurrent use.
type rounds struct {
	mu     sync.Mutex
	closes chan struct{} // nil if no goroutine waits
}

func (r *rounds) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closes == nil {
		r.closes = make(chan struct{})
	}
	return r.closes
}

func (r *rounds) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closes != nil {
		close(r.closes)
		r.closes = nil
	}
}
