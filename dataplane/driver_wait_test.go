// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// WaitEndpoint returns when the wanted state is programmed, not an earlier or a failing one.
func TestDriverWaitEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		on := func(iface string) func(*dataplane.Endpoint) bool {
			return func(e *dataplane.Endpoint) bool {
				return r.driver.Status().InSync && e.Interface == iface // it may call the driver
			}
		}
		wait := func(iface string) <-chan error {
			result := make(chan error, 1)
			go func() { result <- r.driver.WaitEndpoint(t.Context(), endpointKey("a"), on(iface)) }()
			synctest.Wait()
			return result
		}
		moved := wait("way1")
		r.send(world("a"))
		require.NoError(t, <-wait("if-a"))
		require.Empty(t, moved)

		r.fail("routes", objectError(endpointKey("a")))
		next := world()
		addEndpoint(next, "a", "p", "way1")
		r.send(next)
		require.Empty(t, moved, "it fails")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, err := range []error{
			r.driver.WaitEndpoint(short, endpointKey("a"), on("way1")),
			r.driver.WaitProgrammed(short, endpointKey("a")),
		} {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var fault *dataplane.ApplyError
			require.ErrorAs(t, err, &fault, "the reason why it fails")
			require.Equal(t, endpointKey("a"), fault.Object)
		}
		r.fail("routes", nil)
		require.NoError(t, <-moved)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, context.DeadlineExceeded, r.driver.WaitEndpoint(ctx, endpointKey("a"), on("if-a")))
		last := wait("way2")
		r.done()
		require.ErrorIs(t, <-last, dataplane.ErrStopped)
	})
}

// WaitApplied waits for the first complete state and for all batches before the call. It does not
// wait for an object at fault.
func TestDriverWaitApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		wait := func() <-chan error {
			result := make(chan error, 1)
			go func() { result <- r.driver.WaitApplied(t.Context()) }()
			synctest.Wait()
			return result
		}
		early := wait()
		partial := world()
		partial.InSync = false
		r.send(partial)
		require.Empty(t, early, "not in sync")
		r.fail("policy", objectError(endpointKey("a")))
		r.send(world("a"))
		require.NoError(t, <-early)

		r.fail("policy", errBoom)
		r.send(world("a", "b"))
		later := wait()
		require.Empty(t, later, "nothing is applied")
		r.fail("policy", nil)
		require.NoError(t, <-later)

		release := r.hold()
		require.NoError(t, r.driver.Send(t.Context(), dptest.Transition(r.sent, world("a", "b", "c"))))
		synctest.Wait()
		held := wait()
		require.Empty(t, held)
		release()
		require.NoError(t, <-held)
		r.done()
		require.NoError(t, <-wait(), "everything was applied before the end")
	})
}

// WaitEndpoint refuses a host endpoint at once: the driver would never report it with the state of
// a workload endpoint.
func TestDriverWaitEndpointOfAnotherKind(t *testing.T) {
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{dptest.NewMirror()}})
	require.NoError(t, err)
	host := policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}
	err = driver.WaitEndpoint(t.Context(), host, func(*dataplane.Endpoint) bool { return true })
	require.EqualError(t, err, "dataplane: wait for HostEndpoint/h: not a workload endpoint")
}
