// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// A batch of only network events is skipped, but failed changes are retried.
func TestNetworkEventsRetryFailedChanges(t *testing.T) {
	nfttest.EachForm(t, testNetworkEventsRetryFailedChanges)
}

func testNetworkEventsRetryFailedChanges(t *testing.T, classes render.ClassesConfig) {
	network := dataplane.Batch{Events: []dataplane.Event{&dataplane.NodeUpdate{Node: &dataplane.Node{Name: "n"}}}}
	ns := nstest.New(t)
	d := open(t, ns, render.Config{Classes: classes})
	require.NoError(t, d.Apply(t.Context(), network))
	require.Nil(t, d.Table(), "not in sync")

	free := occupy(t, ns, "wayleave")
	require.Error(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), allowed())))
	require.Error(t, d.Apply(t.Context(), network), "tried again")
	free()
	require.NoError(t, d.Apply(t.Context(), network))
	require.NotNil(t, d.Table())
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if d.Apply(t.Context(), network) != nil {
			t.Fail()
		}
	}), "rendered again")

	spoilt := allowed()
	spoilt.Endpoints[endpointKey("spoilt")] = &dataplane.Endpoint{Interface: "no/interface"}
	require.Error(t, d.Apply(t.Context(), dptest.Transition(allowed(), spoilt)))
	require.Error(t, d.Apply(t.Context(), network), "reported again")
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(spoilt, allowed())))
	require.NoError(t, d.Apply(t.Context(), network))

	done, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.Apply(done, dptest.Transition(allowed(), spoilt)), context.Canceled)
	require.ErrorContains(t, d.Apply(t.Context(), network), "spoilt", "the failed change is retried")
}
