// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// limited is a dataplane that does not judge all traffic of some endpoints.
type limited struct {
	*dptest.Mirror
	unjudged map[policy.Key]string
}

func (l *limited) Unjudged() map[policy.Key]string { return l.unjudged }

var _ dataplane.Limited = (*limited)(nil)

// TestDriverUnjudged: the status of an endpoint lists the traffic that a dataplane does not judge.
// If this traffic changes, the status changes.
func TestDriverUnjudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := endpointKey("a")
		first := &limited{dptest.NewMirror(), map[policy.Key]string{a: "frames"}}
		d, err := dataplane.NewDriver(dataplane.DriverConfig{
			Dataplanes: []dataplane.Dataplane{first, dptest.NewMirror()},
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer stop()
		go func() { _ = d.Run(ctx) }()
		require.NoError(t, d.Send(ctx, dptest.Transition(dptest.NewState(), world("a", "b"))))
		synctest.Wait()
		require.Equal(t, dataplane.EndpointUp, d.Status().Endpoints[a].State)
		require.Equal(t, "frames", d.Status().Endpoints[a].Unjudged)
		require.Empty(t, d.Status().Endpoints[endpointKey("b")].Unjudged)

		var changes []string
		go func() {
			for c := range d.EndpointChanges(ctx) {
				changes = append(changes, c.Key.Name+" "+c.Status.Unjudged)
			}
		}()
		synctest.Wait()
		changes = nil
		first.unjudged = nil
		require.NoError(t, d.Resync(ctx))
		synctest.Wait()
		require.Equal(t, []string{"a "}, changes)
		require.Empty(t, d.Status().Endpoints[a].Unjudged)
	})
}
