// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

var errNoLink = errors.New("no such interface")

func downError(name string) error {
	return &dataplane.ApplyError{
		Backend: "x", Op: "find interface", Object: endpointKey(name), Err: errNoLink, Down: true,
	}
}

// S124: an endpoint without an interface is down. That is no failure: the driver does not retry,
// and programs it when the dataplane reports the interface.
func TestDriverDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var results []error
		r := newRigWith(t, dataplane.DriverConfig{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Hooks:  dataplane.Hooks{Applied: func(info dataplane.AppliedInfo) { results = append(results, info.Err) }},
		}, "policy", "routes", "more")
		defer r.done()
		r.fail("routes", downError("a"))
		r.send(world("a", "b"))
		programmed := make(chan error, 1)
		go func() { programmed <- r.driver.WaitProgrammed(context.Background(), endpointKey("a")) }()
		time.Sleep(time.Hour)
		require.Empty(t, programmed)

		a, b := endpointKey("a"), endpointKey("b")
		status := r.driver.Status()
		require.Equal(t, dataplane.EndpointDown, status.Endpoints[a].State)
		require.Equal(t, "down", status.Endpoints[a].State.String())
		require.ErrorIs(t, status.Endpoints[a].Err, errNoLink)
		require.Equal(t, dataplane.EndpointUp, status.Endpoints[b].State)
		require.True(t, status.InSync)
		require.False(t, status.Pending)
		require.NoError(t, status.LastError)
		require.Zero(t, status.Failures)
		require.Contains(t, r.state("policy").Endpoints, a)
		require.NotContains(t, r.state("more").Endpoints, a, "a dataplane after routes waits for them")
		require.Contains(t, r.state("more").Endpoints, b)
		require.EqualValues(t, 1, r.driver.Stats().Attempts, "no retry")
		require.NoError(t, r.driver.WaitApplied(context.Background()))

		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := r.driver.WaitEndpoint(short, a, func(*dataplane.Endpoint) bool { return true })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errNoLink)
		require.ErrorContains(t, err, "WorkloadEndpoint/n/a is down")

		// Other changes, also of the endpoint itself, do not bring it up, and are not logged again.
		next := world("b", "c")
		addEndpoint(next, "a", "p", "if-other")
		r.send(next)
		require.Empty(t, programmed)
		require.Equal(t, dataplane.EndpointDown, r.driver.Status().Endpoints[a].State)
		require.Equal(t, 1, strings.Count(log.String(), "endpoint is down"))

		r.fail("routes", nil)
		r.calls()
		r.faulty["routes"].Drift(dataplane.Drift{Backend: "routes", Object: "faults", OnlyFaults: true})
		require.NoError(t, <-programmed)
		require.Equal(t, []string{"routes apply", "more apply"}, applies(r.calls()), "no resync")
		require.Contains(t, r.state("more").Endpoints, a)
		require.Zero(t, r.driver.Stats().Drifts)

		// It goes down without a batch, then is removed.
		r.fail("routes", downError("a"))
		r.faulty["routes"].Drift(dataplane.Drift{Backend: "routes", Object: "faults", OnlyFaults: true})
		synctest.Wait()
		require.Equal(t, dataplane.EndpointDown, r.driver.Status().Endpoints[a].State)
		r.fail("routes", nil)
		r.send(world("b"))
		require.NoError(t, r.driver.WaitRemoved(context.Background(), a))
		require.NoError(t, errors.Join(results...))
		line := `level=INFO msg="endpoint is down" endpoint=WorkloadEndpoint/n/a`
		require.Equal(t, 2, strings.Count(log.String(), line))
		require.Equal(t, 2, strings.Count(log.String(), "\n"), log.String())
	})
}

// applies returns the calls without their events.
func applies(calls []string) (names []string) {
	for _, c := range calls {
		if !strings.HasPrefix(c, " ") {
			names = append(names, c)
		}
	}
	return names
}

// Other faults are failures, also beside an endpoint that is down, and so are Down errors of
// unsuitable objects.
func TestDriverFailuresBesideDownEndpoint(t *testing.T) {
	host := policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}
	for name, c := range map[string]struct {
		err   error
		state dataplane.EndpointState
	}{
		"it has another fault": {
			errors.Join(downError("a"), objectError(endpointKey("a"))), dataplane.EndpointFailed,
		},
		"its policy has a fault": {
			errors.Join(downError("a"), objectError(policyKey("p"))), dataplane.EndpointFailed,
		},
		"all have a fault": {errors.Join(errBoom, downError("a")), dataplane.EndpointFailed},
		"another has a fault": {
			errors.Join(downError("a"), objectError(endpointKey("b"))), dataplane.EndpointDown,
		},
		"of a host endpoint": {
			errors.Join(downError("a"), &dataplane.ApplyError{Object: host, Err: errNoLink, Down: true}),
			dataplane.EndpointDown,
		},
		"of an unknown endpoint": {errors.Join(downError("a"), downError("z")), dataplane.EndpointDown},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.done()
			r.fail("routes", c.err)
			r.send(world("a", "b"))
			status := r.driver.Status()
			require.Error(t, status.LastError, name)
			require.Equal(t, c.state, status.Endpoints[endpointKey("a")].State, name)
			time.Sleep(time.Second)
			require.Greater(t, r.driver.Stats().Failed, uint64(2), "%s: it is retried", name)
			r.fail("routes", nil)
			time.Sleep(time.Minute)
			require.Equal(t, dataplane.EndpointUp, r.driver.Status().Endpoints[endpointKey("a")].State, name)
		})
	}
}

// A dataplane that cannot report the interface is retried.
func TestDriverDownWithoutWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := downError("a")
		d := startUnwatched(t, func() error { return fault })
		require.Equal(t, dataplane.EndpointFailed, d.Status().Endpoints[endpointKey("a")].State)
		fault = nil
		require.NoError(t, d.WaitProgrammed(t.Context(), endpointKey("a")))
	})
}

// startUnwatched runs a driver over a dataplane that is not a Watcher and returns these faults. It
// sends the endpoint a.
func startUnwatched(t *testing.T, fault func() error) *dataplane.Driver {
	dp := &unwatched{dptest.NewFaulty(dptest.NewMirror(), func(dptest.Call) error { return fault() })}
	d, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{dp}})
	require.NoError(t, err)
	go func() { _ = d.Run(t.Context()) }()
	require.NoError(t, d.Send(t.Context(), dptest.Transition(dptest.NewState(), world("a"))))
	synctest.Wait()
	return d
}

// unwatched is a dataplane that is not a Watcher.
type unwatched struct{ dataplane.Dataplane }

// If a resync and an Apply run in one round, the later one decides whether the endpoint is down.
func TestDriverDownDuringResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dp := dptest.NewFaulty(dptest.NewMirror(), func(c dptest.Call) error {
			if c.Op == "resync" {
				return downError("a")
			}
			return nil
		})
		d, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{dp}})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		require.NoError(t, d.Send(ctx, dptest.Transition(dptest.NewState(), world("a"))))
		result := make(chan error, 1)
		go func() { result <- d.Resync(ctx) }()
		synctest.Wait()
		go func() { _ = d.Run(ctx) }()
		require.NoError(t, <-result)
		require.Equal(t, dataplane.EndpointUp, d.Status().Endpoints[endpointKey("a")].State)
		require.NoError(t, d.Resync(ctx))
		require.Equal(t, dataplane.EndpointDown, d.Status().Endpoints[endpointKey("a")].State)
	})
}
