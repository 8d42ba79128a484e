// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// BenchmarkRunner loads a tenth of W1 through a runner, in calls of 100 updates, for comparison
// with BenchmarkW1.
func BenchmarkRunner(b *testing.B) {
	w := snapshot{25_000, 1_000}
	updates := slices.Collect(w.updates())
	for _, row := range []struct {
		name   string
		record io.Writer
	}{{"plain", nil}, {"recorded", io.Discard}} {
		b.Run(row.name+"/"+w.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				got := throughRunner(b, updates, row.record)
				require.Equal(b, w.want().members, got)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(updates)), "ns/update")
		})
	}
}

// throughRunner returns the final number of members of the sets.
func throughRunner(b *testing.B, updates []policy.Update, record io.Writer) int {
	ctx, cancel := context.WithCancel(b.Context())
	members := 0
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{
		Graph: newBenchGraph(b), Record: record,
		Out: func(_ context.Context, batch dataplane.Batch) error {
			for _, event := range batch.Events {
				switch e := event.(type) {
				case *dataplane.IPSetUpdate:
					members += len(e.Members)
				case *dataplane.IPSetDelta:
					members += len(e.Added) - len(e.Removed)
				case *dataplane.InSync:
					cancel()
				}
			}
			return nil
		},
	})
	require.NoError(b, err)
	go func() {
		for portion := range slices.Chunk(updates, 100) {
			if err := runner.Update(ctx, portion); err != nil {
				b.Error(err)
			}
		}
		if err := runner.InSync(ctx); err != nil {
			b.Error(err)
		}
	}()
	require.ErrorIs(b, runner.Run(ctx), context.Canceled)
	return members
}
