// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"slices"
	"time"
)

// Stats counts what a Driver has done since NewDriver.
type Stats struct {
	// Attempts counts the attempts to program the dataplanes, including retries and resyncs. Failed
	// counts the attempts that failed. An attempt that fails for only one object counts as failed,
	// too. An endpoint that is down is not a failure.
	Attempts, Failed uint64
	// Batches counts the batches that were applied. Events counts the events after merging.
	Batches, Events uint64
	// Resyncs counts the attempts in which a dataplane compared the kernel with the desired state.
	Resyncs uint64
	// Drifts counts the changes that dataplanes detected. Repairs is the number of these changes
	// that a dataplane repaired by itself, plus the number of resyncs because of drift. A resync
	// with a general error does not count.
	Drifts, Repairs uint64
	// Queue is the number of batches that wait now. Applying is true during an attempt to program
	// the dataplanes.
	Queue    int
	Applying bool
	// Last is the time when the last attempt ended; the zero Time before the first.
	Last time.Time
	// Durations of the attempts.
	Durations Histogram
}

// Histogram counts durations by their size.
type Histogram struct {
	// Bounds are the upper bounds of the buckets, in ascending order. One more bucket has the
	// longer durations.
	Bounds []time.Duration
	// Counts has the number of durations in each bucket: those that are at most its bound, and
	// longer than the bound before.
	Counts []uint64
	// Sum of all durations.
	Sum time.Duration
}

func newStats() Stats {
	bounds := []time.Duration{
		100 * time.Microsecond, 300 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond,
		30 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second,
		10 * time.Second,
	}
	return Stats{Durations: Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}}
}

// Stats returns the counts since NewDriver.
func (d *Driver) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Queue = len(d.queue.batches)
	s.Durations.Bounds = slices.Clone(s.Durations.Bounds)
	s.Durations.Counts = slices.Clone(s.Durations.Counts)
	return s
}

// count counts one attempt.
func (s *Stats) count(info AppliedInfo, now time.Time, repaired int) {
	s.Applying = false
	s.Attempts++
	if info.Err != nil {
		s.Failed++
	}
	s.Batches += uint64(info.Batches)
	s.Events += uint64(info.Events)
	if info.Resync {
		s.Resyncs++
	}
	s.Repairs += uint64(repaired)
	s.Last = now
	bucket, _ := slices.BinarySearch(s.Durations.Bounds, info.Duration)
	s.Durations.Counts[bucket]++
	s.Durations.Sum += info.Duration
}
