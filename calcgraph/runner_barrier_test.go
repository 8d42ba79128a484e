// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// TestRunnerBarrier: Barrier returns after Out has returned for all earlier updates, and not
// before.
func TestRunnerBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		free, taken := make(chan struct{}), 0
		runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{
			Graph: newGraph(t),
			Out: func(context.Context, dataplane.Batch) error {
				<-free
				taken++
				return nil
			},
		})
		require.NoError(t, err)
		ended := make(chan error)
		go func() { ended <- runner.Run(ctx) }()
		require.NoError(t, runner.Barrier(ctx), "nothing to wait for")
		require.NoError(t, runner.Update(ctx, []policy.Update{endpoint("x", "10.0.0.1")}))
		require.NoError(t, runner.Barrier(ctx), "a graph that is not in sync sends nothing")
		require.Zero(t, taken)

		require.NoError(t, runner.InSync(ctx))
		synctest.Wait() // Out has the first batch
		require.NoError(t, runner.Update(ctx, []policy.Update{endpoint("x", "10.0.0.2")}))
		passed := make(chan int, 1)
		go func() {
			require.NoError(t, runner.Barrier(ctx))
			passed <- taken
		}()
		synctest.Wait()
		free <- struct{}{}
		synctest.Wait()
		require.Empty(t, passed, "Out has not received the second batch")
		impatient, giveUp := context.WithCancel(ctx)
		giveUp()
		require.ErrorIs(t, runner.Barrier(impatient), context.Canceled)
		free <- struct{}{}
		require.Equal(t, 2, <-passed)

		waits := make(chan error)
		require.NoError(t, runner.Update(ctx, []policy.Update{endpoint("x", "10.0.0.3")}))
		go func() { waits <- runner.Barrier(context.WithoutCancel(ctx)) }()
		synctest.Wait()
		cancel()
		close(free)
		require.ErrorIs(t, <-ended, context.Canceled)
		require.ErrorIs(t, runner.Barrier(t.Context()), calcgraph.ErrStopped)
		<-waits // either one may be first
	})
}
