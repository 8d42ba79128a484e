// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
)

// Shutdown finishes the present attempt, applies nothing more, and leaves the kernel as it is until
// Teardown.
func TestDriverShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.send(world("a"))
		release := r.hold()
		r.send(world("a", "b"))
		r.send(world("a", "b", "c"))
		down := make(chan error, 1)
		go func() { down <- r.driver.Shutdown(t.Context()) }()
		synctest.Wait()
		require.Empty(t, down)
		release()
		require.NoError(t, <-down)
		require.NoError(t, r.driver.Shutdown(t.Context()), "once more")
		require.Equal(t, world("a", "b").String(), r.state("policy").String())
		require.Equal(t, world("a", "b").String(), r.state("routes").String())
		require.ErrorIs(t, r.driver.Send(t.Context(), dataplane.Batch{}), dataplane.ErrStopped)
		require.NoError(t, r.driver.Teardown(t.Context()))
		require.Empty(t, r.state("policy").Endpoints)
	})
}

// patient is a dataplane whose Apply returns only when its context is done.
type patient struct{ *dptest.Mirror }

func (patient) Apply(ctx context.Context, _ dataplane.Batch) error {
	<-ctx.Done()
	return ctx.Err()
}

// The call of a dataplane that does not return is canceled.
func TestDriverShutdownRunsOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := dataplane.NewDriver(dataplane.DriverConfig{
			Dataplanes: []dataplane.Dataplane{patient{dptest.NewMirror()}},
		})
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- d.Run(t.Context()) }()
		require.NoError(t, d.Send(t.Context(), dptest.Transition(dptest.NewState(), world("a"))))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, d.Shutdown(ctx), context.DeadlineExceeded)
		<-ran
		require.NoError(t, d.Shutdown(t.Context()))
	})
}

func TestDriverShutdownBeforeRun(t *testing.T) {
	d, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{dptest.NewMirror()}})
	require.NoError(t, err)
	require.NoError(t, d.Shutdown(t.Context()))
	require.ErrorIs(t, d.Run(t.Context()), dataplane.ErrStopped)
	require.ErrorIs(t, d.WaitProgrammed(t.Context(), endpointKey("a")), dataplane.ErrStopped)
}

// A subscriber gets all endpoints, then the changes, and only the latest if it is slow.
func TestDriverEndpointChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.fail("policy", objectError(endpointKey("b")))
		r.send(world("b", "a"))
		changes := make(chan dataplane.EndpointChange)
		ended := make(chan struct{})
		go func() {
			for c := range r.driver.EndpointChanges(context.Background()) {
				changes <- c
			}
			close(ended)
		}()
		up := func(name string, generation uint64) dataplane.EndpointChange {
			return dataplane.EndpointChange{
				Key:    endpointKey(name),
				Status: dataplane.EndpointStatus{State: dataplane.EndpointUp, Generation: generation},
			}
		}
		require.Equal(t, up("a", 1), <-changes)
		failed := <-changes
		require.Equal(t, endpointKey("b"), failed.Key)
		require.Equal(t, dataplane.EndpointFailed, failed.Status.State)
		var at *dataplane.ApplyError
		require.ErrorAs(t, failed.Status.Err, &at)
		require.Equal(t, endpointKey("b"), at.Object)

		time.Sleep(time.Minute) // of retries that fail as before
		synctest.Wait()
		require.Empty(t, changes)
		r.fail("policy", nil)
		require.Equal(t, up("b", 1), <-changes)

		moved := world("b")
		moved.Endpoints[endpointKey("b")].Interface = "moved"
		r.send(moved) // without a reader
		r.send(world("b", "c"))
		r.send(world("b"))
		require.Equal(t, dataplane.EndpointChange{Key: endpointKey("a"), Removed: true}, <-changes)
		last := <-changes
		for last != up("b", 3) { // states in between may have been received
			last = <-changes
		}
		r.done()
		<-ended
	})
}

func TestDriverEndpointChangesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.send(world("a", "b"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := 0
		for range r.driver.EndpointChanges(ctx) {
			seen++
			cancel()
		}
		require.Equal(t, 1, seen)
		for range r.driver.EndpointChanges(t.Context()) {
			break
		}
	})
}

// planner returns the batch as its plan.
type planner struct{ *dptest.Mirror }

func (p planner) Plan(_ context.Context, b dataplane.Batch) (string, error) {
	if len(p.State().Endpoints) == 0 {
		return "", errBoom
	}
	return b.String(), nil
}

func TestDriverPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dp := planner{dptest.NewMirror()}
		d, err := dataplane.NewDriver(dataplane.DriverConfig{
			Dataplanes: []dataplane.Dataplane{dptest.NewMirror(), dp, dp},
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- d.Run(ctx) }()
		next := dptest.Transition(world("a"), world("a", "b"))
		_, err = d.Plan(ctx, next)
		require.ErrorIs(t, err, errBoom)
		require.ErrorContains(t, err, "dataplane 1")
		// Batches in the queue come first.
		require.NoError(t, d.Send(ctx, dptest.Transition(dptest.NewState(), world("a"))))
		text, err := d.Plan(ctx, next)
		require.NoError(t, err)
		require.Equal(t, next.String()+next.String(), text)
		require.Equal(t, world("a").String(), dp.State().String(), "nothing is done")
		stop()
		<-ran
		_, err = d.Plan(t.Context(), next)
		require.ErrorIs(t, err, dataplane.ErrStopped)
	})
}

func TestDriverStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := 2 * time.Millisecond
		d, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{
			dptest.NewFaulty(dptest.NewMirror(), func(c dptest.Call) error {
				time.Sleep(wait)
				return map[int]error{1: errBoom}[c.N]
			}),
		}})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = d.Run(ctx) }()
		require.NoError(t, d.Send(ctx, dptest.Transition(dptest.NewState(), world("a"))))
		require.NoError(t, d.WaitProgrammed(ctx, endpointKey("a")))
		wait = time.Minute
		require.NoError(t, d.Send(ctx, dptest.Transition(world("a"), world())))
		time.Sleep(2 * time.Minute)
		stats := d.Stats()
		require.Equal(t, uint64(3), stats.Attempts)
		require.Equal(t, uint64(1), stats.Failed)
		require.Equal(t, uint64(2), stats.Batches)
		require.Equal(t, uint64(4), stats.Events)
		require.Equal(t, time.Minute+4*time.Millisecond, stats.Durations.Sum)
		for i, n := range stats.Durations.Counts {
			switch {
			case i == len(stats.Durations.Bounds):
				require.Equal(t, uint64(1), n)
			case stats.Durations.Bounds[i] == 3*time.Millisecond:
				require.Equal(t, uint64(2), n)
			default:
				require.Zero(t, n)
			}
		}
		stats.Durations.Counts[0] = 99
		require.Zero(t, d.Stats().Durations.Counts[0], "a copy")
		stop()
		synctest.Wait()
	})
}
