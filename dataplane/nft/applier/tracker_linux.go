// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"sync"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
)

// tracker records, from notifications, which process changed our table. So after a change of
// another table, our table need not be read back. Generations of the ruleset have no gaps: if one
// is missing, any table may have changed.
//
// It is safe for concurrent use, because the user of the Applier and a Watch both read the
// notifications.
type tracker struct {
	mu      sync.Mutex
	monitor *nfnl.Monitor
	family  uint8
	table   string
	own     uint32 // our netlink port
	// generation is the last generation whose changes are known.
	generation uint32
	// inside is set if the transaction whose notifications are arriving changed our table.
	inside bool
	// changed is set if another process changed our table, or may have changed it, since the last
	// setKnown. drift is the last of these changes.
	changed bool
	drift   Drift
	// drifts is the number of these changes.
	drifts uint64
	// yielded is set while another process owns the table: its changes are no drift.
	yielded bool
}

// setKnown records that the table as of a generation is known, so earlier changes no longer matter.
func (t *tracker) setKnown(generation uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed, t.generation = false, generation
}

// yield records whether another process owns the table.
func (t *tracker) yield(yielded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.yielded = yielded
}

// drain reads all notifications. It returns the last generation whose changes are known, and
// changed.
func (t *tracker) drain() (generation uint32, changed bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err = t.drainLocked()
	return t.generation, t.changed, err
}

// lastDrift does what drain does, for a Watch. It returns the last change of our table, if there
// was one since the notifications were last read.
func (t *tracker) lastDrift() (drift Drift, ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ok, err = t.drainLocked()
	return t.drift, ok, err
}

func (t *tracker) drainLocked() (drifted bool, err error) {
	before := t.drifts
	missed, err := t.monitor.Events(t.processLocked)
	if missed {
		t.recordLocked(Drift{Missed: true})
	}
	return t.drifts != before, err
}

// processLocked processes one notification.
func (t *tracker) processLocked(e nfnl.Event) {
	if e.Generation == 0 {
		switch {
		case e.Table != t.table || e.Family != t.family || e.Port == t.own:
		case e.Port == 0: // the kernel itself, for example when a device is removed: there is no transaction
			t.recordLocked(Drift{})
		default:
			t.inside = true
		}
		return
	}
	inside := t.inside
	t.inside = false
	switch age := int32(e.Generation - t.generation); {
	case age == 0 && inside: // the reading began after it got its generation, but before it was complete
		t.recordLocked(Drift{PID: e.PID, Process: e.Process, Generation: e.Generation})
		return
	case age <= 0: // its changes are known already
		return
	}
	switch {
	case e.Generation != following(t.generation):
		t.recordLocked(Drift{Missed: true, Generation: e.Generation})
	case inside:
		t.recordLocked(Drift{PID: e.PID, Process: e.Process, Generation: e.Generation})
	}
	t.generation = e.Generation
}

func (t *tracker) recordLocked(d Drift) {
	t.changed, t.drift = true, d
	if !t.yielded {
		t.drifts++
	}
}

// withMonitorPaused runs commit, which sends a large transaction of ours, without receiving its
// notifications. commit returns the generation of the transaction, or zero if there is none or it
// is not known. now returns the current generation. A gap between the numbers shows that another
// transaction came in between.
func (t *tracker) withMonitorPaused(commit, now func() (uint32, error)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.drainLocked(); err != nil {
		return err
	}
	if err := t.monitor.Pause(); err != nil {
		return err
	}
	reached, failed := commit()
	if err := t.monitor.Resume(); err != nil {
		t.recordLocked(Drift{Missed: true})
		return err
	}
	if reached != 0 && reached == following(t.generation) {
		t.generation = reached
	}
	at, err := now()
	if err == nil {
		_, err = t.drainLocked()
	}
	if err != nil || int32(at-t.generation) > 0 {
		t.recordLocked(Drift{Missed: true, Generation: at})
		t.generation = at
	}
	if failed != nil {
		return failed
	}
	return err
}

// count returns the number of drifts.
func (t *tracker) count() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drifts
}

// following returns the next generation. The kernel skips zero.
func following(generation uint32) uint32 {
	if generation++; generation == 0 {
		generation = 1
	}
	return generation
}
