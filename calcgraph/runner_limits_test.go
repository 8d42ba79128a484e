// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

func newRunner(t *testing.T, cfg calcgraph.RunnerConfig) *calcgraph.Runner {
	t.Helper()
	cfg.Graph = newGraph(t)
	runner, err := calcgraph.NewRunner(cfg)
	require.NoError(t, err)
	return runner
}

// TestRunnerKeepsLatestUpdate: replaced pending updates are garbage, and so are, during Out,
// resources that the graph does not store.
func TestRunnerKeepsLatestUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		busy := make(chan struct{})
		runner := newRunner(t, calcgraph.RunnerConfig{Out: func(context.Context, dataplane.Batch) error {
			<-busy
			return nil
		}})
		ended := make(chan error)
		go func() { ended <- runner.Run(ctx) }()

		give := func(u policy.Update) weak.Pointer[policy.WorkloadEndpoint] {
			w := weak.Make(u.Resource.(*policy.WorkloadEndpoint))
			require.NoError(t, runner.Update(ctx, []policy.Update{u}))
			return w
		}
		invalid := endpoint("bad", "10.0.0.9")
		invalid.Resource.(*policy.WorkloadEndpoint).Interface = ""
		rejected := give(invalid)
		invalid.Resource = nil
		require.NoError(t, runner.InSync(ctx))
		synctest.Wait() // in Out, with the accepted update
		var waiting []weak.Pointer[policy.WorkloadEndpoint]
		for i := range 10 {
			waiting = append(waiting, give(endpoint("x", fmt.Sprintf("10.0.0.%d", i+1))))
		}
		runtime.GC()
		require.Nil(t, rejected.Value())
		for _, w := range waiting[:9] {
			require.Nil(t, w.Value())
		}
		require.NotNil(t, waiting[9].Value())
		require.Equal(t, calcgraph.RunnerStats{Pending: 1, Updates: 11, Coalesced: 9, Flushes: 1, Batches: 1},
			runner.Stats())

		close(busy)
		synctest.Wait()
		require.Equal(t, calcgraph.RunnerStats{Updates: 11, Coalesced: 9, Flushes: 2, Batches: 2}, runner.Stats())
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// TestRunnerCoalescesBacklog: a source that changes the same objects all the time neither delays
// the dataplane nor uses more and more memory. A batch has each object at most once.
func TestRunnerCoalescesBacklog(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	const objects = 3
	batches := 0
	runner := newRunner(t, calcgraph.RunnerConfig{
		MaxPending: objects,
		Out: func(_ context.Context, b dataplane.Batch) error {
			seen := map[policy.Key]bool{}
			for _, event := range b.Events {
				if e, ok := event.(*dataplane.EndpointUpdate); ok {
					require.False(t, seen[e.Key])
					seen[e.Key] = true
				}
			}
			if batches++; batches == 50 {
				cancel()
			}
			return nil
		},
	})
	require.NoError(t, runner.InSync(ctx))
	var source sync.WaitGroup
	source.Go(func() {
		for i := 0; ; i++ {
			u := endpoint(fmt.Sprint(i%objects), fmt.Sprintf("10.0.%d.%d", i/250%250, 1+i%250))
			if runner.Update(context.Background(), []policy.Update{u}) != nil {
				return
			}
			if n := runner.Stats().Pending; n > objects {
				t.Errorf("%d updates wait", n)
				return
			}
		}
	})
	require.ErrorIs(t, runner.Run(ctx), context.Canceled)
	source.Wait()
	require.Equal(t, 50, batches)
}

// TestRunnerManySources: with several concurrent sources, the graph receives all objects, and uses
// the last update of each.
func TestRunnerManySources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		mirror := dptest.NewMirror()
		runner := newRunner(t, calcgraph.RunnerConfig{
			MaxPending: 4,
			Out:        func(_ context.Context, b dataplane.Batch) error { return mirror.Play(b) },
		})
		ended := make(chan error)
		go func() { ended <- runner.Run(ctx) }()
		require.NoError(t, runner.InSync(ctx))
		var sources sync.WaitGroup
		for s := range 8 {
			sources.Go(func() {
				for i := range 100 {
					u := endpoint(fmt.Sprintf("w%d-%d", s, i%5), fmt.Sprintf("10.%d.0.%d", s, i+1))
					if err := runner.Update(ctx, []policy.Update{u}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		sources.Wait()
		synctest.Wait()
		endpoints := mirror.State().Endpoints
		require.Len(t, endpoints, 40)
		for s := range 8 {
			for i := range 5 {
				key := endpoint(fmt.Sprintf("w%d-%d", s, i), "10.0.0.1").Key
				require.Equal(t, fmt.Sprintf("10.%d.0.%d", s, 96+i), endpoints[key].Addresses[0].String())
			}
		}
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// TestRunnerCancelledWhileSending: blocked callers return, and Out receives no further batch.
func TestRunnerCancelledWhileSending(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		out  func(ctx context.Context, cancel func()) error
		want error
	}{
		"Out waits for the context": {func(ctx context.Context, cancel func()) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}, context.Canceled},
		"Out takes the batch nonetheless": {func(_ context.Context, cancel func()) error {
			cancel()
			return nil
		}, context.Canceled},
		"Out fails": {func(context.Context, func()) error { return broken }, broken},
	} {
		t.Run(name, func(t *testing.T) {
			// select chooses at random, so one run is not enough.
			for range 30 {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					handed := 0
					var runner *calcgraph.Runner
					waiting := make(chan error, 1)
					runner = newRunner(t,
						calcgraph.RunnerConfig{MaxPending: 1, Out: func(ctx context.Context, _ dataplane.Batch) error {
							handed++
							require.NoError(t, runner.Update(t.Context(), []policy.Update{endpoint("x", "10.0.0.1")}))
							go func() {
								waiting <- runner.Update(context.Background(),
									[]policy.Update{endpoint("y", "10.0.0.2")})
							}()
							synctest.Wait()
							return test.out(ctx, cancel)
						}})
					require.NoError(t, runner.InSync(ctx))
					require.ErrorIs(t, runner.Run(ctx), test.want)
					require.ErrorIs(t, <-waiting, calcgraph.ErrStopped)
					require.Equal(t, 1, handed)
					require.Zero(t, runner.Stats().Pending)
					require.ErrorIs(t, runner.Run(ctx), calcgraph.ErrStarted)
					cancel()
				})
			}
		})
	}
}

// TestRunnerDoesNothingWithADoneContext: not even pending updates reach the graph.
func TestRunnerDoesNothingWithADoneContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 30 {
		runner := newRunner(t, calcgraph.RunnerConfig{Out: func(context.Context, dataplane.Batch) error {
			return errors.New("Out was called")
		}})
		require.NoError(t, runner.InSync(ctx))
		require.ErrorIs(t, runner.Run(ctx), context.Canceled)
		require.Zero(t, runner.Stats().Flushes)
	}
}

// TestRunnerKeepsCallsWhole: the updates of one call reach the graph in one flush. This also holds
// if the updates are more than the limit, and if some replace pending ones.
func TestRunnerKeepsCallsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		next := make(chan struct{})
		var sizes []int
		runner := newRunner(t,
			calcgraph.RunnerConfig{MaxPending: 2, Out: func(_ context.Context, b dataplane.Batch) error {
				sizes = append(sizes, endpointUpdatesOf(b))
				<-next
				return nil
			}})
		ended := make(chan error)
		go func() { ended <- runner.Run(ctx) }()
		require.NoError(t, runner.InSync(ctx))
		synctest.Wait()
		one := []policy.Update{endpoint("0", "10.0.0.1")}
		require.NoError(t, runner.Update(ctx, one))
		var many []policy.Update
		for i := range 10 {
			many = append(many, endpoint(fmt.Sprint(i), fmt.Sprintf("10.0.1.%d", i+1)))
		}
		require.NoError(t, runner.Update(ctx, many), "there is room for one, so all are accepted")
		late := make(chan error, 1)
		go func() { late <- runner.Update(ctx, []policy.Update{many[0], endpoint("z", "10.0.2.1")}) }()
		synctest.Wait()
		require.Empty(t, late, "one of the two is new")
		next <- struct{}{}
		synctest.Wait()
		require.Equal(t, []int{0, 10}, sizes)
		require.NoError(t, <-late)
		next <- struct{}{}
		synctest.Wait()
		require.Equal(t, []int{0, 10, 1}, sizes)
		next <- struct{}{}
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}
