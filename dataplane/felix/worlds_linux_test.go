// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/worlds"
)

// After each batch of a random world, the driver's state equals the Mirror's, object by object.
// Every policy and profile that the messages cannot express is at fault, and no other object is. A
// driver that is started again gets the same state.
func TestDriverHoldsTheMirror(t *testing.T) {
	for _, dialect := range dialects() {
		for seed := range uint64(few(15)) {
			t.Run(fmt.Sprintf("%s/seed %d", dialect, seed), func(t *testing.T) {
				r := newRig(t)
				r.dialect(dialect)
				dp := r.open()
				drifts := watch(t, dp)
				gen := worlds.New(worlds.Config{Seed: seed})
				graph, err := calcgraph.New(calcgraph.Config{Node: worlds.Node})
				require.NoError(t, err)
				mirror := dptest.NewMirror()
				for _, res := range gen.World() {
					graph.Update(policy.Update{Key: res.Key(), Resource: res})
				}
				for step := range 10 {
					if step == 1 { // the first batch is not complete
						graph.InSync()
					}
					for range 20 {
						graph.Update(gen.Update())
					}
					b := graph.Flush()
					require.NoError(t, mirror.Play(b))
					faults, general := dataplane.ApplyErrors(waitApplied(t, dp, drifts, b))
					require.False(t, general)
					if step == 0 {
						require.Zero(t, dp.Stats().Starts)
						continue
					}
					require.Equal(t, keys(withMissing(mirror.State())), keys(faults))
					require.Equal(t, sentState(mirror.State()).String(), r.dump(dp))
					if step == 5 {
						kill(t, dp)
						require.ErrorContains(t, ended(t, dp), "signal: killed")
						retried(t, dp)
						_, general := dataplane.ApplyErrors(waitApplied(t, dp, drifts, dataplane.Batch{}))
						require.False(t, general)
						require.Equal(t, sentState(mirror.State()).String(), r.dump(dp))
						require.EqualValues(t, 2, dp.Stats().Starts)
					}
				}
				require.NoError(t, dp.Close())
			})
		}
	}
}

func keys[V any](m map[policy.Key]V) []policy.Key {
	return slices.SortedFunc(maps.Keys(m), policy.Key.Compare)
}
