// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

var errUnderWay = errors.New("under way")

func pendingError(k policy.Key) error {
	return &dataplane.ApplyError{Backend: "x", Op: "add", Object: k, Err: errUnderWay, Pending: true}
}

// report sets the error that a dataplane returns from now on, and makes it report a change.
func (r *rig) report(name string, err error) {
	r.fail(name, err)
	r.faulty[name].Drift(dataplane.Drift{Backend: name, OnlyFaults: true})
	synctest.Wait()
}

// An asynchronous dataplane continues to program an endpoint after Apply. Until it reports the
// result, the endpoint is pending and withheld from later dataplanes. That is not a failure, and
// there is no retry.
func TestDriverPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		a, b := endpointKey("a"), endpointKey("b")
		r.fail("policy", pendingError(a))
		r.send(world("a", "b"))
		programmed := make(chan error, 1)
		go func() { programmed <- r.driver.WaitProgrammed(context.Background(), a) }()
		time.Sleep(time.Hour)
		require.Empty(t, programmed)

		status := r.driver.Status()
		require.Equal(t, dataplane.EndpointPending, status.Endpoints[a].State)
		require.ErrorIs(t, status.Endpoints[a].Err, errUnderWay)
		require.Equal(t, dataplane.EndpointUp, status.Endpoints[b].State)
		require.True(t, status.InSync)
		require.True(t, status.Pending)
		require.NoError(t, status.LastError)
		require.EqualValues(t, 1, r.driver.Stats().Attempts, "no retry")
		require.NotContains(t, r.state("routes").Endpoints, a)
		require.Contains(t, r.state("routes").Endpoints, b)
		require.NoError(t, r.driver.WaitApplied(context.Background()))

		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := r.driver.WaitProgrammed(short, a)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "WorkloadEndpoint/n/a is pending: x: add WorkloadEndpoint/n/a: under way")

		r.calls()
		r.report("policy", nil)
		require.NoError(t, <-programmed)
		require.Equal(t, []string{"policy apply", "routes apply"}, applies(r.calls()), "no resync")
		require.Contains(t, r.state("routes").Endpoints, a)
		status = r.driver.Status()
		require.NoError(t, status.Endpoints[a].Err)
		require.False(t, status.Pending)
		require.Zero(t, r.driver.Stats().Drifts)

		// Later it fails, which is retried.
		r.report("policy", objectError(a))
		require.Equal(t, dataplane.EndpointFailed, r.driver.Status().Endpoints[a].State)
		r.fail("policy", nil)
		time.Sleep(time.Minute)
		require.Equal(t, dataplane.EndpointUp, r.driver.Status().Endpoints[a].State)
	})
}

// The endpoints that refer to a pending policy are pending. If one of them fails, it is failed
// instead.
func TestDriverPendingPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		a, b := endpointKey("a"), endpointKey("b")
		r.fail("policy", errors.Join(pendingError(policyKey("p")), objectError(b)))
		r.send(world("a", "b"))
		status := r.driver.Status()
		require.Equal(t, dataplane.EndpointPending, status.Endpoints[a].State)
		require.Equal(t, dataplane.EndpointFailed, status.Endpoints[b].State)
		require.Empty(t, r.state("routes").Endpoints)
		r.report("policy", nil)
		require.Equal(t, dataplane.EndpointUp, r.driver.Status().Endpoints[a].State)
		require.Len(t, r.state("routes").Endpoints, 2)
	})
}

// While a later dataplane is still removing an endpoint, those before keep it without policy and
// down.
func TestDriverPendingRemoval(t *testing.T) {
	for _, name := range []string{"routes", "policy"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.done()
			a := endpointKey("a")
			r.send(world("a", "b"))
			r.fail(name, pendingError(a))
			attempts := r.driver.Stats().Attempts
			r.send(world("b"))
			removed := make(chan error, 1)
			go func() { removed <- r.driver.WaitRemoved(context.Background(), a) }()
			time.Sleep(time.Hour)
			require.Empty(t, removed, name)
			require.Equal(t, attempts+1, r.driver.Stats().Attempts, "no retry")
			require.NoError(t, r.driver.Status().LastError)
			if name == "routes" {
				require.True(t, r.state("policy").Endpoints[a].Down)
			}
			r.report(name, nil)
			require.NoError(t, <-removed)
			require.NotContains(t, r.state("policy").Endpoints, a)
		})
	}
}

// A Pending error is a failure if the object is of another kind, or if the dataplane cannot report
// the result.
func TestDriverPendingIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.fail("policy", pendingError(policy.Key{Kind: policy.KindIPPool, Name: "x"}))
		r.send(world("a"))
		require.Equal(t, dataplane.EndpointFailed, r.driver.Status().Endpoints[endpointKey("a")].State)
		r.fail("policy", nil)
		time.Sleep(time.Minute)
	})
	synctest.Test(t, func(t *testing.T) {
		fault := pendingError(endpointKey("a"))
		d := startUnwatched(t, func() error { return fault })
		require.Equal(t, dataplane.EndpointFailed, d.Status().Endpoints[endpointKey("a")].State)
		fault = nil
		require.NoError(t, d.WaitProgrammed(t.Context(), endpointKey("a")))
	})
}

// A driver over asynchronous dataplanes ends in the state that it was sent.
func TestDriverOverDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := dptest.NewMirror(), dptest.NewMirror()
		d, err := dataplane.NewDriver(dataplane.DriverConfig{
			Dataplanes: []dataplane.Dataplane{dptest.NewDelayed(first), dptest.NewDelayed(second)},
		})
		require.NoError(t, err)
		go func() { _ = d.Run(t.Context()) }()
		sent := dptest.NewState()
		for _, to := range []dptest.State{world("a"), world("a", "b"), world("b", "c"), world()} {
			require.NoError(t, d.Send(t.Context(), dptest.Transition(sent, to)))
			for key := range to.Endpoints {
				require.NoError(t, d.WaitProgrammed(t.Context(), key))
			}
			for key := range sent.Endpoints {
				if to.Endpoints[key] == nil {
					require.NoError(t, d.WaitRemoved(t.Context(), key))
				}
			}
			require.Equal(t, to.String(), first.State().String())
			require.Equal(t, to.String(), second.State().String())
			sent = to
		}
	})
}
