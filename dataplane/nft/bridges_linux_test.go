// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// Bridges returns the bridges of the last change, also while a change is being made. A returned map
// does not change.
func TestDataplaneBridges(t *testing.T) {
	b := newBridgedPods(t)
	d := open(t, b.node, render.Config{Bridges: []string{"br0"}})
	require.Empty(t, d.Bridges())
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for range d.Bridges() {
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	s := shop()
	delete(s.Endpoints, endpointKey("way3"))
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), s)))
	both := d.Bridges()
	require.Equal(t, map[string]string{"way1": "br0", "way2": "br0"}, both)
	runIP(t, b.node, "link", "set", "dev", "way1", "nomaster")
	require.NoError(t, d.Resync(t.Context()))
	require.Equal(t, map[string]string{"way2": "br0"}, d.Bridges())
	require.Len(t, both, 2)
	require.NoError(t, d.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{
		&dataplane.EndpointRemove{Key: endpointKey("way2")},
	}}))
	require.Empty(t, d.Bridges(), "the master of an interface without an endpoint is unknown")
	close(stop)
	<-done
	require.NoError(t, d.Teardown(t.Context()))
	require.Empty(t, d.Bridges())
}
