// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"sync"
)

// InForce returns once all updates that the sources sent before the call are in the kernel, except objects at fault,
// which the driver's status lists. It waits until all sources are in sync.
//
// Errors: the context's, calcgraph.ErrStopped or dataplane.ErrStopped.
func (p *Pipeline) InForce(ctx context.Context) error {
	if err := p.runner.Barrier(ctx); err != nil {
		return err
	}
	return p.driver.WaitApplied(ctx)
}

// Round returns a channel that is closed after the next attempt to program, when the driver's status has its result.
func (p *Pipeline) Round() <-chan struct{} { return p.rounds.next() }

// rounds reports attempts to program. It is safe for concurrent use.
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
