// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"sync"

	"github.com/wayleave/wayleave/examples/agent/internal/memory"
)

// startGate makes sure that only one of two events happens. One is the first write of rules or
// routes. The other is the refusal of the start for lack of memory. A startGate is safe for
// concurrent use.
type startGate struct {
	mu      sync.Mutex
	refusal error
	wrote   bool
	writing chan struct{} // closed at the first write that allowWrite allows
}

func newStartGate() *startGate { return &startGate{writing: make(chan struct{})} }

// allowWrite records that a write begins. If the start was refused, it returns the error of the
// refusal.
func (s *startGate) allowWrite() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal == nil && !s.wrote {
		s.wrote = true
		close(s.writing)
	}
	return s.refusal
}

// refuse refuses the start, unless a write has begun. It reports whether the start is refused.
func (s *startGate) refuse(cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wrote {
		s.refusal = cause
	}
	return !s.wrote
}

// watchMemory returns an error if memory is not enough for the start. After the first write, it
// only waits until ctx is done: an agent that ended then could leave rules without routes.
func (d *Daemon) watchMemory(ctx context.Context) error {
	d.logger.Info("memory limit", "limit", d.cfg.Memory)
	start, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-d.gate.writing:
			cancel()
		case <-start.Done():
		}
	}()
	err := d.watchLimit(start)
	var exceeded *memory.ExceededError
	if errors.As(err, &exceeded) && d.gate.refuse(err) {
		d.logger.Error("ending: not enough memory to start; rules and routes are left unchanged", "err", err)
		if d.cfg.Exceeded != nil {
			d.cfg.Exceeded(err)
		}
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}
