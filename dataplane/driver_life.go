// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"sync"
)

// lifecycle ensures that Run and Teardown exclude each other, and that Run is called once.
type lifecycle struct {
	quit    chan struct{} // closed when Run is to return
	stopped chan struct{} // closed when Run has returned

	mu       sync.Mutex
	occupied bool // Run or Teardown is at work
	quitting bool // quit is closed
	// cut cancels the context of Run; nil before Run is called.
	cut context.CancelFunc
}

// shutdown makes Run return, and waits until it has.
func (l *lifecycle) shutdown(ctx context.Context) error {
	l.mu.Lock()
	if !l.quitting {
		l.quitting = true
		close(l.quit)
		if l.cut == nil { // Run was not called, and cannot be called any more
			close(l.stopped)
		}
	}
	cut := l.cut
	l.mu.Unlock()
	select {
	case <-l.stopped:
		return nil
	case <-ctx.Done():
	}
	if cut != nil {
		cut()
	}
	return ctx.Err()
}

// occupy claims the dataplanes for the caller, or releases them.
func (l *lifecycle) occupy(claim bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if claim && l.occupied {
		return ErrRunning
	}
	l.occupied = claim
	return nil
}

// begin claims the dataplanes for Run, whose context cut cancels.
func (l *lifecycle) begin(cut context.CancelFunc) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.occupied:
		return ErrRunning
	case l.cut != nil || l.quitting:
		return ErrStopped
	}
	l.occupied, l.cut = true, cut
	return nil
}

func (l *lifecycle) end() {
	close(l.stopped)
	_ = l.occupy(false)
}
