// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// A tracker reports our table as changed if another process or the kernel itself changed it. It
// does so too if a generation is missing, because its changes are unknown.
func TestTrackerReportsUnknownGenerationAsChange(t *testing.T) {
	const us, other, known = 7, 8, 100
	end := func(generation uint32) nfnl.Event {
		return nfnl.Event{Port: other, PID: 9, Process: "nft", Generation: generation}
	}
	ofTable := func(name string, port uint32) nfnl.Event { return nfnl.Event{Port: port, Table: name, Family: 1} }
	by := func(generation uint32) *Drift { return &Drift{PID: 9, Process: "nft", Generation: generation} }
	for _, c := range []struct {
		name   string
		known  uint32
		events []nfnl.Event
		drift  *Drift
		after  uint32
	}{
		{"another process", known, []nfnl.Event{ofTable("ours", other), end(known + 1)}, by(known + 1), known + 1},
		{"another process, begun earlier", known, []nfnl.Event{ofTable("ours", other), end(known)}, by(known), known},
		{"another process, long before", known, []nfnl.Event{ofTable("ours", other), end(known - 1)}, nil, known},
		{"another table", known, []nfnl.Event{ofTable("theirs", other), end(known + 1)}, nil, known + 1},
		{"ourselves", known, []nfnl.Event{ofTable("ours", us), end(known + 1)}, nil, known + 1},
		{"the kernel", known, []nfnl.Event{ofTable("ours", 0)}, &Drift{}, known},
		{
			"a generation is missing", known,
			[]nfnl.Event{end(known + 2)},
			&Drift{Missed: true, Generation: known + 2},
			known + 2,
		},
		{"numbers begin again", math.MaxUint32, []nfnl.Event{ofTable("theirs", other), end(1)}, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := &tracker{family: 1, table: "ours", own: us, generation: c.known}
			for _, e := range c.events {
				tr.processLocked(e)
			}
			require.Equal(t, c.drift != nil, tr.changed)
			if c.drift != nil {
				require.Equal(t, *c.drift, tr.drift)
				require.EqualValues(t, 1, tr.drifts)
			}
			require.Equal(t, c.after, tr.generation)
		})
	}
}

// If the notifications of our transaction are not received, our copy of the table stays valid
// unless another transaction came before or after it.
func TestTransactionsBesideOursAreSeen(t *testing.T) {
	monitor, err := nfnl.Listen(nfnl.Config{NetNS: nstest.New(t).FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, monitor.Close()) })
	for name, c := range map[string]struct {
		reached, now uint32
		changed      bool
	}{
		"only ours":         {101, 101, false},
		"another before":    {102, 102, true},
		"another after":     {101, 102, true},
		"ours, unknown":     {0, 101, true},
		"ours, not done":    {0, 100, false},
		"another, not ours": {0, 102, true},
	} {
		t.Run(name, func(t *testing.T) {
			tr := &tracker{monitor: monitor, family: 1, table: "ours", generation: 100}
			commit := func() (uint32, error) { return c.reached, nil }
			require.NoError(t, tr.withMonitorPaused(commit, func() (uint32, error) { return c.now, nil }))
			require.Equal(t, c.changed, tr.changed)
			require.Equal(t, c.now, tr.generation)
		})
	}
}
