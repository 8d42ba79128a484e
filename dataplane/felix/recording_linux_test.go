// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph/replay"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
)

// A driver gets a recording of a calcgraph.Runner. After each batch, its state equals the Mirror's.
// The recording has objects of all kinds that the protocol has.
func TestRecording(t *testing.T) {
	for _, dialect := range dialects() {
		t.Run(dialect.String(), func(t *testing.T) {
			recording, err := os.Open("testdata/recording.jsonl")
			require.NoError(t, err)
			defer func() { _ = recording.Close() }()
			r := newRig(t)
			r.dialect(dialect)
			dp := r.open()
			drifts := watch(t, dp)
			mirror, batches, most := dptest.NewMirror(), 0, map[string]int{}
			require.NoError(t, replay.Run(t.Context(), recording, replay.Config{
				Out: func(_ context.Context, b dataplane.Batch) error {
					if err := mirror.Play(b); err != nil {
						return err
					}
					batches++
					for kind, n := range sizes(mirror.State()) {
						most[kind] = max(most[kind], n)
					}
					faults, general := dataplane.ApplyErrors(waitApplied(t, dp, drifts, b))
					require.False(t, general)
					if mirror.State().InSync {
						require.Equal(t, keys(withMissing(mirror.State())), keys(faults))
						require.Equal(t, sentState(mirror.State()).String(), r.dump(dp))
					}
					return nil
				},
			}))
			for kind, n := range most {
				require.NotZero(t, n, kind)
			}
			require.Greater(t, batches, 15)
			require.EqualValues(t, 1, dp.Stats().Starts)
		})
	}
}

// sizes returns the number of objects of each kind that the protocol has.
func sizes(s dptest.State) map[string]int {
	return map[string]int{
		"sets": len(s.Sets), "policies": len(s.Policies), "profiles": len(s.Profiles),
		"endpoints": len(s.Endpoints), "host endpoints": len(s.HostEndpoints), "routes": len(s.Routes),
		"tunnels": len(s.Tunnels), "nodes": len(s.Nodes), "pools": len(s.Pools),
		"namespaces": len(s.Namespaces), "service accounts": len(s.ServiceAccounts),
	}
}
