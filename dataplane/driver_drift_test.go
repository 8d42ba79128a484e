// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
)

// A drift is repaired only in its dataplane, and many drifts by one resync.
func TestDriverDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []dataplane.Drift
		r := newRigWith(t, dataplane.DriverConfig{
			Hooks: dataplane.Hooks{Drifted: func(d dataplane.Drift) { reported = append(reported, d) }},
		}, "policy", "routes")
		defer r.done()
		r.send(world("a"))
		r.calls()
		drift := dataplane.Drift{Backend: "nft", Object: "table inet wayleave", Process: "nft (4711)"}
		require.Equal(t, "nft: table inet wayleave changed by nft (4711)", drift.String())
		r.faulty["policy"].Drift(drift)
		require.Equal(t, []string{"policy resync"}, r.calls())
		require.Equal(t, []dataplane.Drift{drift}, reported)

		release := r.hold()
		for range 1000 {
			r.faulty["policy"].Drift(drift)
		}
		synctest.Wait()
		require.LessOrEqual(t, len(reported), 200)
		release()
		require.LessOrEqual(t, len(r.calls()), 2, "one that began at once, and one for the rest")
		stats := r.driver.Stats()
		require.Equal(t, uint64(1001), stats.Drifts)
		require.Equal(t, stats.Resyncs, stats.Repairs)

		// A resync that fails as a whole is retried as a resync: Apply alone would find no change.
		r.fail("policy", errBoom)
		r.faulty["policy"].Drift(drift)
		require.Equal(t, []string{"policy resync"}, r.calls())
		r.fail("policy", nil)
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, []string{"policy resync"}, r.calls())
		require.NoError(t, r.driver.Status().LastError)
		require.Equal(t, stats.Resyncs+2, r.driver.Stats().Resyncs)
		time.Sleep(time.Hour)
		require.Empty(t, r.calls())
	})
}

// Another process that changes the same object repeatedly is reported, and repairs are at most
// ten a second.
func TestDriverDispute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newRigWith(t, dataplane.DriverConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))}, "policy", "routes")
		defer r.done()
		r.send(world("a"))
		r.calls()
		change := dataplane.Drift{Backend: "nft", Object: "table inet wayleave", Process: "agent (4711)", Foreign: true}
		machine := dataplane.Drift{Backend: "nft", Object: "interface cali1"}
		for range 100 {
			r.faulty["policy"].Drift(machine)
			time.Sleep(time.Millisecond)
		}
		require.Len(t, r.calls(), 100, "a change of the machine is not a dispute")
		for range 4 {
			r.faulty["policy"].Drift(change)
			synctest.Wait()
		}
		require.Empty(t, r.driver.Disputes())
		require.Len(t, r.calls(), 4)
		for range 5000 { // in 10 s
			time.Sleep(2 * time.Millisecond)
			r.faulty["policy"].Drift(change)
		}
		disputes := r.driver.Disputes()
		require.Equal(t, []dataplane.Dispute{{Backend: "nft", Object: "table inet wayleave", Process: "agent (4711)"}},
			disputes)
		require.Equal(t, "nft: table inet wayleave is changed repeatedly by agent (4711)", disputes[0].String())
		time.Sleep(time.Second)
		calls := len(r.calls())
		require.InDelta(t, 100, calls, 5, "repairs")
		require.Equal(t, 1, strings.Count(log.String(), "repeatedly"))
		require.Equal(t, 4+100, strings.Count(log.String(), "drift detected"))

		// The limit does not apply to the other dataplane, nor to repairs by the dataplane itself.
		route := dataplane.Drift{Backend: "routes", Object: "route 10.0.0.1/32", Foreign: true, Repaired: true}
		repairs := r.driver.Stats().Repairs
		for range 10 {
			r.faulty["routes"].Drift(route)
		}
		synctest.Wait()
		require.Empty(t, r.calls())
		require.Equal(t, repairs+10, r.driver.Stats().Repairs)
		require.Len(t, r.driver.Disputes(), 2)

		time.Sleep(2 * time.Minute)
		require.Empty(t, r.driver.Disputes(), "two quiet minutes later")
		r.faulty["policy"].Drift(change)
		synctest.Wait()
		require.Len(t, r.calls(), 1, "repaired at once")
	})
}

// broken is a dataplane that cannot watch.
type broken struct {
	*dptest.Mirror
	times []time.Time
}

func (b *broken) Watch(context.Context, func(dataplane.Drift)) error {
	b.times = append(b.times, time.Now())
	return errors.New("no buffer space available")
}

func (b *broken) Resync(context.Context) error { return nil }

// Watch of a dataplane that cannot watch is called again, with back-off. Each time a resync
// follows: it may have missed a change.
func TestDriverWatchThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dp := &broken{Mirror: dptest.NewMirror()}
		d, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{dp}})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- d.Run(ctx) }()
		time.Sleep(3 * time.Minute)
		stop()
		require.ErrorIs(t, <-ran, context.Canceled)
		synctest.Wait()
		limit := 100 * time.Millisecond
		for i := 1; i < len(dp.times); i++ {
			wait := dp.times[i].Sub(dp.times[i-1])
			require.LessOrEqual(t, wait, limit)
			require.GreaterOrEqual(t, wait, limit/2)
			limit = min(2*limit, 30*time.Second)
		}
		require.Greater(t, len(dp.times), 9)
		require.Equal(t, uint64(len(dp.times)-1), d.Stats().Resyncs)
	})
}

func TestDriverSlowResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, dataplane.DriverConfig{ResyncEvery: time.Hour}, "policy", "routes")
		defer r.done()
		r.send(world("a"))
		r.calls()
		time.Sleep(time.Hour - time.Second)
		require.Empty(t, r.calls())
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"policy resync", "routes resync"}, r.calls())
		time.Sleep(24 * time.Hour)
		require.Equal(t, uint64(25), r.driver.Stats().Resyncs)
	})
}

// Attempts keep the mean interval. Batches in between are merged. After a pause, some attempts may
// follow at once.
func TestDriverRate(t *testing.T) {
	for burst, want := range map[int][]time.Duration{
		0: {0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second},
		3: {0, 0, 0, time.Second, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRigWith(t, dataplane.DriverConfig{MinInterval: time.Second, Burst: burst}, "only")
			defer r.done()
			for range 2 { // the second time after a pause
				start := time.Now()
				var got []time.Duration
				for i := range want {
					name := string(rune('a' + i))
					r.send(world(name))
					require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey(name)))
					got = append(got, time.Since(start))
				}
				require.Equal(t, want, got)
				before := r.driver.Stats()
				for range 3 { // these have to wait, and are merged
					r.send(world("x"))
					r.send(world("y"))
				}
				require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("y")))
				require.Equal(t, before.Attempts+1, r.driver.Stats().Attempts)
				require.Equal(t, before.Batches+6, r.driver.Stats().Batches)
				time.Sleep(time.Minute)
			}
		})
	}
}

// Objects at fault are retried within the rate, and others are programmed.
func TestDriverRateAndFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, dataplane.DriverConfig{MinInterval: time.Second}, "policy", "routes")
		defer r.done()
		r.fail("policy", objectError(endpointKey("a")))
		r.send(world("a"))
		start := time.Now()
		r.send(world("a", "b"))
		require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("b")))
		require.LessOrEqual(t, time.Since(start), time.Second)
		time.Sleep(time.Minute)
		require.LessOrEqual(t, r.driver.Stats().Attempts, uint64(15))
	})
}
