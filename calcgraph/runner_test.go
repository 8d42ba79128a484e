// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

func endpoint(name, addr string) policy.Update {
	w := &policy.WorkloadEndpoint{
		Namespace: "a", Name: name, Node: node, Interface: "wl" + name,
		Addresses: []netip.Addr{netip.MustParseAddr(addr)},
	}
	return policy.Update{Key: w.Key(), Resource: w}
}

func endpointUpdatesOf(b dataplane.Batch) int { return kinds(b)[endpointUpdates] }

func newGraph(t *testing.T) *calcgraph.Graph {
	t.Helper()
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	require.NoError(t, err)
	return graph
}

func TestRunnerConfig(t *testing.T) {
	_, err := calcgraph.NewRunner(calcgraph.RunnerConfig{MaxPending: -1})
	require.ErrorContains(t, err, "Graph: required")
	require.ErrorContains(t, err, "Out: required")
	require.ErrorContains(t, err, "MaxPending: must not be negative")
	_, err = calcgraph.New(calcgraph.Config{})
	require.ErrorContains(t, err, "Node: required")
}

// TestRunnerCoalesces: during Out, only the latest update of each object is stored. All of them are
// in one batch.
func TestRunnerCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		mirror := dptest.NewMirror()
		busy := make(chan struct{})
		var batches []dataplane.Batch
		runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{
			Graph: newGraph(t),
			Out: func(_ context.Context, b dataplane.Batch) error {
				batches = append(batches, b)
				<-busy
				return mirror.Play(b)
			},
		})
		require.NoError(t, err)
		ended := make(chan error)
		go func() { ended <- runner.Run(ctx) }()

		require.NoError(t, runner.Update(ctx, []policy.Update{endpoint("x", "10.0.0.1")}))
		require.NoError(t, runner.InSync(ctx))
		synctest.Wait()
		require.Len(t, batches, 1)
		for i := range 100 {
			require.NoError(t, runner.Update(ctx, []policy.Update{endpoint("x", fmt.Sprintf("10.0.1.%d", i))}))
			require.NoError(t, runner.Update(ctx, []policy.Update{endpoint("y", fmt.Sprintf("10.0.2.%d", i))}))
		}
		close(busy)
		synctest.Wait()
		require.Len(t, batches, 2)
		require.Equal(t, 2, endpointUpdatesOf(batches[1]))
		key := endpoint("x", "10.0.0.1").Key
		require.Equal(t, "10.0.1.99", mirror.State().Endpoints[key].Addresses[0].String())

		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.ErrorIs(t, runner.Update(t.Context(), []policy.Update{endpoint("x", "10.0.0.1")}), calcgraph.ErrStopped)
		require.ErrorIs(t, runner.InSync(t.Context()), calcgraph.ErrStopped)
	})
}

// TestRunnerBlocksOverLimit: a source that is faster than the dataplane blocks until there is space
// or its context is done.
func TestRunnerBlocksOverLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		next := make(chan struct{})
		events := 0
		runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{
			Graph: newGraph(t),
			Out: func(_ context.Context, b dataplane.Batch) error {
				events += endpointUpdatesOf(b)
				<-next
				return nil
			},
			MaxPending: 2,
		})
		require.NoError(t, err)
		ended := make(chan error)
		go func() { ended <- runner.Run(ctx) }()
		require.NoError(t, runner.InSync(ctx))
		synctest.Wait() // the runner is in Out with the in-sync batch

		var updates []policy.Update
		for i := range 5 {
			updates = append(updates, endpoint(fmt.Sprint(i), fmt.Sprintf("10.0.0.%d", i+1)))
		}
		fed := make(chan error, 1)
		go func() {
			for _, pair := range [][]policy.Update{updates[:2], updates[2:5]} {
				if err := runner.Update(ctx, pair); err != nil {
					fed <- err
					return
				}
			}
			fed <- nil
		}()
		synctest.Wait()
		require.Empty(t, fed, "blocked with two objects waiting")

		// An update of an object with a pending one needs no space.
		require.NoError(t, runner.Update(ctx, updates[:1]))

		short, give := context.WithCancel(ctx)
		give()
		require.ErrorIs(t, runner.Update(short, []policy.Update{endpoint("z", "10.0.0.9")}), context.Canceled)

		for _, want := range []int{2, 5} { // the first two; then the other three, in one flush
			next <- struct{}{}
			synctest.Wait()
			require.Equal(t, want, events)
		}
		require.NoError(t, <-fed)
		next <- struct{}{}
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestRunnerEndsWhenOutFails(t *testing.T) {
	broken := errors.New("broken")
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{
		Graph: newGraph(t),
		Out:   func(context.Context, dataplane.Batch) error { return broken },
	})
	require.NoError(t, err)
	require.NoError(t, runner.InSync(t.Context()))
	require.ErrorIs(t, runner.Run(t.Context()), broken)
}
