// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// ClassStats returns the counts of the last change, also while a change is being made.
func TestDataplaneClassStats(t *testing.T) {
	d := open(t, nstest.New(t), render.Config{})
	require.Zero(t, d.ClassStats())
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			d.ClassStats()
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	require.NoError(t, d.Apply(t.Context(), nfttest.Transition(nfttest.CountedState())))
	close(stop)
	<-done
	require.Equal(t, nfttest.ClassCounts(), d.ClassStats())
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(nfttest.CountedState(), allowed())))
	require.Zero(t, d.ClassStats().Classes)
	require.NoError(t, d.Teardown(t.Context()))
	require.Zero(t, d.ClassStats())
}
