// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// Routes are withheld from a dataplane while an earlier one has a general error: that one may
// encrypt their packets. Removals are not withheld.
func TestRoutesAreWithheld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		one, two := netip.MustParsePrefix("10.0.1.0/26"), netip.MustParsePrefix("10.0.2.0/26")
		route := func(s dptest.State, dst netip.Prefix, node string) {
			s.Routes[dst] = &dataplane.Route{Dst: dst, Type: dataplane.RouteRemoteWorkload, Node: node}
		}
		s := dptest.NewState()
		s.InSync = true
		route(s, one, "a")
		r.send(s)
		require.Len(t, r.state("routes").Routes, 1)

		r.fail("policy", errBoom)
		route(s, two, "a")
		r.send(s)
		route(s, two, "b")
		r.send(s)
		require.NotContains(t, r.state("routes").Routes, two)
		delete(s.Routes, one)
		r.send(s)
		require.Empty(t, r.state("routes").Routes)
		third := netip.MustParsePrefix("10.0.3.0/26")
		route(s, third, "a")
		r.send(s)
		delete(s.Routes, third)
		r.send(s)

		r.fail("policy", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, s.Routes, r.state("routes").Routes)
	})
}

// A dataplane finishes only while no later one has a general error. An endpoint or a node at fault
// there does not matter.
func TestFinishWaitsForLaterDataplanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, fault := &finisher{Mirror: dptest.NewMirror()}, error(nil)
		second := dptest.NewFaulty(dptest.NewMirror(), func(dptest.Call) error { return fault })
		driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{first, second}})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer stop()
		go func() { _ = driver.Run(ctx) }()
		rounds := 0
		finished := func(fails error) bool {
			fault, first.calls = fails, nil
			rounds++
			require.NoError(t, driver.Send(ctx, dataplane.Batch{Events: []dataplane.Event{&dataplane.NodeUpdate{
				Node: &dataplane.Node{Name: fmt.Sprint(rounds)},
			}}}))
			time.Sleep(time.Minute)
			synctest.Wait()
			made := first.made()
			return len(made) > 0 && made[len(made)-1] == "finish"
		}
		require.True(t, finished(nil))
		require.False(t, finished(errBoom))
		require.True(t, finished(objectError(endpointKey("e"))))
		node := policy.Key{Kind: policy.KindNode, Name: "n"}
		require.True(t, finished(objectError(node)), "its routes are not removed")
		require.False(t, finished(errBoom))
		require.True(t, finished(nil))
	})
}
