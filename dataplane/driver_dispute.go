// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/wayleave/wayleave/internal/dispute"
)

// Dispute is an object in the kernel that another process changes repeatedly: five times within
// half a minute. The dispute ends when the object has not been changed for two minutes. A usual
// cause is a second agent that uses the same table or route protocol.
type Dispute struct {
	// Backend and Object are as in Drift.
	Backend, Object string
	// Process is the process that last changed the object. Empty if unknown.
	Process string
}

// String returns, for example, "nft: table inet wayleave is changed repeatedly by nft (4711)". If
// Process is empty, the text ends with "by another process".
func (d Dispute) String() string {
	by := "another process"
	if d.Process != "" {
		by = d.Process
	}
	return fmt.Sprintf("%s: %s is changed repeatedly by %s", d.Backend, d.Object, by)
}

// Disputes returns the objects in the kernel that another process changes repeatedly, in order of
// backend and object; nil if there are none. The Driver resyncs a dataplane after such a change,
// but at most ten times a second.
func (d *Driver) Disputes() []Dispute {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.disputes.list(time.Now())
}

// disputes are the objects that other processes change repeatedly. The driver's lock guards them.
type disputes struct {
	// tracker has the disputes without their processes.
	tracker dispute.Tracker[Dispute]
	// processes has the process that was the last to change each object.
	processes map[Dispute]string
	// waiting has the backends for which a resync is scheduled, disputePause after a change.
	waiting map[int]bool
}

func newDisputes() disputes {
	return disputes{processes: map[Dispute]string{}, waiting: map[int]bool{}}
}

// record counts a change by another process, and reports whether its object is disputed.
func (d *disputes) record(drift Drift, now time.Time, logger *slog.Logger) bool {
	key := Dispute{Backend: drift.Backend, Object: drift.Object}
	disputed, begins := d.tracker.Record(key, now)
	if disputed {
		d.processes[key] = drift.Process
	}
	if begins {
		d.list(now) // removes disputes that have ended
		logger.Warn("another process changes an object repeatedly; a second agent may be running",
			"backend", drift.Backend, "object", drift.Object, "process", drift.Process)
	}
	return disputed
}

// list returns the disputes in order of backend and object.
func (d *disputes) list(now time.Time) []Dispute {
	disputed := d.tracker.Disputed(now)
	maps.DeleteFunc(d.processes, func(key Dispute, _ string) bool { return !slices.Contains(disputed, key) })
	for i, key := range disputed {
		disputed[i].Process = d.processes[key]
	}
	slices.SortFunc(disputed, func(a, b Dispute) int {
		return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Object, b.Object))
	})
	return disputed
}
