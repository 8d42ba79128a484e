// SPDX-License-Identifier: Apache-2.0

package dispute_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/dispute"
)

// recorder returns only the first result of Record.
type recorder[K comparable] struct{ *dispute.Tracker[K] }

func (r recorder[K]) Record(key K, now time.Time) bool {
	disputed, _ := r.Tracker.Record(key, now)
	return disputed
}

func TestTracker(t *testing.T) {
	var tracker dispute.Tracker[string]
	c := recorder[string]{&tracker}
	now := time.Unix(0, 0)
	later := func(d time.Duration) time.Time { now = now.Add(d); return now }

	// Many objects that change once are not disputed. Neither is an object that changes slowly.
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		require.False(t, c.Record(key, later(time.Millisecond)))
	}
	for range 20 {
		require.False(t, c.Record("slow", later(dispute.Window/(dispute.Changes-1))))
	}
	require.False(t, c.Any(now))
	require.Empty(t, c.Disputed(now))

	for range dispute.Changes - 1 {
		require.False(t, c.Record("x", later(time.Second)))
	}
	require.True(t, c.Record("x", later(time.Second)))
	require.True(t, c.Any(now))
	require.Equal(t, []string{"x"}, c.Disputed(now))

	// It stays disputed until it has not changed for Quiet.
	require.True(t, c.Record("x", later(dispute.Quiet-1)))
	require.True(t, c.Any(later(dispute.Quiet-1)))
	require.False(t, c.Any(later(1)))
	require.Empty(t, c.Disputed(now))
	require.False(t, c.Record("x", now))
}

func TestTrackerIsBounded(t *testing.T) {
	var tracker dispute.Tracker[int]
	c := recorder[int]{&tracker}
	now := time.Unix(0, 0)
	for round := range dispute.Changes {
		for key := range 3000 {
			require.Equal(t, round == dispute.Changes-1 && key < 1000, c.Record(key, now))
		}
	}
	require.Len(t, c.Disputed(now), 1000)
	require.False(t, c.Record(3000, now.Add(dispute.Quiet)), "earlier objects are removed")
	require.Empty(t, c.Disputed(now.Add(dispute.Quiet)))
}

// Objects whose changes are older than Window are removed for others.
func TestOldObjectsAreRemoved(t *testing.T) {
	var tracker dispute.Tracker[int]
	c := recorder[int]{&tracker}
	now := time.Unix(0, 0)
	for key := range 1000 {
		c.Record(key, now)
	}
	now = now.Add(dispute.Window)
	for range dispute.Changes - 1 {
		require.False(t, c.Record(1000, now))
	}
	require.True(t, c.Record(1000, now))
}
