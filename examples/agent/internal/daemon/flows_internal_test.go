// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/nflog"
	"github.com/wayleave/wayleave/examples/agent/internal/metrics"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
)

// dumps is a fake connection tracking table: each dump calls the function.
type dumps func() error

func (d dumps) EachCounted(context.Context, func(), func(*conntrack.Flow, conntrack.Counters)) error {
	return d()
}

func (dumps) Close() error { return nil }

// While the connections of the kernel are read, verdicts are counted, and there are metrics.
func TestVerdictsDuringDump(t *testing.T) {
	d := &Daemon{flows: newFlowCounter()}
	dumping, end, updated := make(chan struct{}), make(chan struct{}), make(chan error)
	d.flows.use(dumps(func() error {
		close(dumping)
		<-end
		return nil
	}))
	go func() { updated <- d.flows.update(t.Context()) }()
	<-dumping

	l := &listener{tap: &tap{done: make(chan struct{})}, entries: make(chan nflog.Entry)}
	counted := make(chan error)
	go func() { counted <- d.countEntries(t.Context(), nil, newRuleCache(), l) }()
	stats := make(chan *metrics.Flows)
	go func() {
		l.entries <- nflog.Entry{Prefix: "allow test", Missed: 3}
		l.entries <- nflog.Entry{Prefix: "allow test"} // the first one has been counted by then
		stats <- d.flows.stats()
	}()
	select {
	case s := <-stats:
		require.Equal(t, uint64(3), s.MissedVerdicts)
		require.Equal(t, 1, s.Stats.Flows)
	case <-time.After(20 * time.Second):
		t.Fatal("verdicts or metrics wait for the dump")
	}
	close(l.done)
	require.NoError(t, <-counted)
	close(end)
	require.NoError(t, <-updated)
}

// The counts are those of the last successful dump.
func TestFailedUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, failed := newFlowCounter(), errors.New("failed")
		n, result := 0, failed
		c.use(dumps(func() error {
			n++
			return result
		}))
		require.ErrorIs(t, c.update(t.Context()), failed)
		require.ErrorIs(t, c.update(t.Context()), failed)
		result = nil
		require.NoError(t, c.update(t.Context()))
		require.NoError(t, c.update(t.Context()))
		require.Equal(t, 3, n, "the last request was just after a dump")
		time.Sleep(flowAge)
		require.NoError(t, c.update(t.Context()))
		require.Equal(t, 4, n)
	})
}

// The connections of the kernel are read periodically, and counting begins again after an error.
func TestUpdatesWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, failed := newFlowCounter(), errors.New("failed")
		n := 0
		c.use(dumps(func() error {
			if n++; n == 3 {
				return failed
			}
			return nil
		}))
		began := time.Now()
		require.ErrorIs(t, pipeline.Together(t.Context(), c.updates), failed)
		require.Equal(t, 3*flowInterval, time.Since(began))
	})
}
